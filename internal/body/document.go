package body

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Document is the body of a request together with the result of checking that it is one JSON object
// within the limits. A document that failed the check keeps its text but has no members. The zero
// value is an empty body.
type Document struct {
	text []byte
	err  *FieldError
	// trusted is true for a text that was accepted earlier. Members added for an upstream may make
	// such a text exceed MaxValues.
	trusted bool
}

// Parse checks text and returns its document. text must not change afterwards.
func Parse(text []byte) Document { return parse("", text) }

func parse(field string, text []byte) Document {
	if err := checkRequest(text); err != nil {
		return Document{text: text, err: fieldErrorOf(field, err)}
	}
	return Document{text: text}
}

// Trusted returns the document of a text without checking it. It is meant for text that genbus
// checked earlier, such as the stored body of a job or an object inside another document. Use it to
// read and edit members, but not for Head, Fingerprint or rules. Invalid text causes no panic. Such
// a document yields the members that can be found, but it cannot be edited.
func Trusted(text []byte) Document { return Document{text: text, trusted: true} }

// Err returns a *FieldError if the document is not one JSON object within the limits.
func (d Document) Err() error {
	if d.err == nil && len(d.text) == 0 {
		d = Parse(nil)
	}
	if d.err == nil {
		return nil
	}
	return d.err
}

// Bytes returns the text as it was given, even if it is not a JSON object.
func (d Document) Bytes() []byte { return d.text }

// object returns the text, or nil if it failed the check.
func (d Document) object() []byte {
	if d.err != nil {
		return nil
	}
	return d.text
}

// Members yields the name and JSON text of each top-level member.
func (d Document) Members() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		c := NewCursor(d.object())
		for quoted := range c.Members() {
			value := c.Value()
			if value == nil || !yield(string(MemberName(quoted)), value) {
				return
			}
		}
	}
}

// Member returns the JSON text of a top-level member, or nil if there is none.
func (d Document) Member(name string) []byte { return FindMember(d.object(), name) }

// Text returns the value of a top-level string member, or "" for anything else.
func (d Document) Text(name string) string { return Text(d.Member(name)) }

// Number returns a top-level member that is a number, or a string that holds one, as written. It
// returns "" for anything else and for numbers longer than 32 bytes.
func (d Document) Number(name string) string { return numberText(d.Member(name)) }

// With returns the document with a top-level member set to value, which must be valid JSON. It
// replaces an existing member in place and appends a new one. All other bytes stay the same. If the
// document cannot hold the member, Err reports that.
func (d Document) With(name string, value []byte) Document {
	if d.Err() != nil {
		return d
	}
	text, ok := SetMember(d.text, name, value)
	switch {
	case !ok:
		d.err = Errorf("", "is not a JSON object")
	case len(value) == 0:
		d.err = Errorf(name, "is empty; it must be JSON")
	case deeper(value, MaxDepth-1):
		d.err = Errorf(name, "makes the body deeper than %d levels", MaxDepth)
	case !d.trusted && tooMany(text):
		d.text, d.err = text, fieldErrorOf("", errTooMany)
	default:
		d.text = text
	}
	return d
}

// WithText is like With but sets a string, which must be valid UTF-8.
func (d Document) WithText(name, text string) Document {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		d.err = Errorf(name, "is not valid UTF-8")
	}
	return d.With(name, quoted)
}

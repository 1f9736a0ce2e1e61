package body

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Document is the body of a request together with the result of its check: whether it is
// one JSON object within the limits. It is checked when it is made, and never again. One
// that is no such object has a text, and no members. The zero value is that of no body.
type Document struct {
	text []byte
	err  *FieldError
	// trusted is true of a text that was accepted before. What is added to it for an
	// upstream may be above MaxValues.
	trusted bool
}

// Parse makes the document of a text, which must not change any more.
func Parse(text []byte) Document { return parse("", text) }

// parse is Parse for the text of a field.
func parse(field string, text []byte) Document {
	if err := checkRequest(text); err != nil {
		return Document{text: text, err: fieldErrorOf(field, err)}
	}
	return Document{text: text}
}

// Trusted makes the document of a text that was checked before, without a check: what
// genbus itself has stored, such as the body of a job, or an object within another
// document. It is for reading and editing members, which no text can make panic: of one
// that is no JSON object all the same, the members that can be found are read, and it
// cannot be edited. The head, the fingerprint and the rules are for documents of Parse.
func Trusted(text []byte) Document { return Document{text: text, trusted: true} }

// Err says why the document is no JSON object within the limits, or is nil. Errors are
// *FieldError.
func (d Document) Err() error {
	if d.err == nil && len(d.text) == 0 {
		d = Parse(nil)
	}
	if d.err == nil {
		return nil
	}
	return d.err
}

// Bytes is the text, byte for byte, also where it is no JSON object.
func (d Document) Bytes() []byte { return d.text }

// object is the text, or nil where it is no JSON object within the limits.
func (d Document) object() []byte {
	if d.err != nil {
		return nil
	}
	return d.text
}

// Members walks through the top-level members, each with its JSON text.
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

// Member gives the JSON text of a top-level member, or nil when there is none.
func (d Document) Member(name string) []byte { return FindMember(d.object(), name) }

// Text gives the value of a top-level member that is a string, and "" for everything else.
func (d Document) Text(name string) string { return Text(d.Member(name)) }

// Number gives a top-level member that is a number, or a string that holds one, as it was
// written, and "" for everything else. It is at most 32 bytes.
func (d Document) Number(name string) string { return numberText(d.Member(name)) }

// With gives the document with value, which must be valid JSON, as a top-level member: in
// the place of the one of that name, or else as the last one. Every other byte is as it
// was. Err says when the document cannot have it.
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

// WithText is With for a string, which must be valid UTF-8.
func (d Document) WithText(name, text string) Document {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		d.err = Errorf(name, "is not valid UTF-8")
	}
	return d.With(name, quoted)
}

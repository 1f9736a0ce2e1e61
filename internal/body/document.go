package body

import "github.com/genbus/genbus/internal/jsonscan"

// Document is the body of a request together with the result of its check: whether it is
// one JSON object within the limits. It is checked when it is made, and never again. One
// that is no such object has a text, and no members. The zero value is that of no body.
type Document struct {
	text []byte
	err  *FieldError
}

// Parse makes the document of a text, which must not change any more.
func Parse(text []byte) Document { return parse("", text) }

// parse is Parse for the text of a field.
func parse(field string, text []byte) Document {
	if err := checkRequest(text); err != nil {
		return Document{text, fieldErrorOf(field, err)}
	}
	return Document{text: text}
}

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

// Member gives the JSON text of a top-level member, or nil when there is none.
func (d Document) Member(name string) []byte { return jsonscan.Find(d.object(), name) }

// Text is MemberText of the document.
func (d Document) Text(name string) string { return Text(d.Member(name)) }

// Number is NumberText of the document.
func (d Document) Number(name string) string { return numberText(d.Member(name)) }

// With gives the document with value, a boolean or number, as a top-level member. It may
// have more values than are taken then.
func (d Document) With(name string, value []byte) Document {
	if d.Err() != nil {
		return d
	}
	text, _ := jsonscan.Set(d.text, name, value)
	if tooMany(text) {
		return Document{text, fieldErrorOf("", errTooMany)}
	}
	return Document{text: text}
}

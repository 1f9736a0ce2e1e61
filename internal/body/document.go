package body

import "github.com/genbus/genbus/internal/jsonscan"

// Document is the body of a request that was found to be one JSON object within the
// limits. It is checked when it is made, and never again. The zero value is that of
// no body; nothing is in it.
type Document struct{ text []byte }

// Parse checks a body, which must not change any more. Errors are *FieldError.
func Parse(text []byte) (Document, error) {
	if err := checkRequest(text); err != nil {
		return Document{}, fieldErrorOf("", err)
	}
	return Document{text: text}, nil
}

// Or gives the document of a text: d if it is that one, else what Parse says. It is
// for a text that may have been parsed already.
func (d Document) Or(text []byte) (Document, error) {
	if len(text) > 0 && len(text) == len(d.text) && &text[0] == &d.text[0] {
		return d, nil
	}
	return Parse(text)
}

// Bytes is the text, byte for byte.
func (d Document) Bytes() []byte { return d.text }

// Member gives the JSON text of a top-level member, or nil when there is none.
func (d Document) Member(name string) []byte { return jsonscan.Find(d.text, name) }

// Text is MemberText of the document.
func (d Document) Text(name string) string { return Text(d.Member(name)) }

// Number is NumberText of the document.
func (d Document) Number(name string) string { return numberText(d.Member(name)) }

// With gives the document with value, a boolean or number, as a top-level member.
func (d Document) With(name string, value []byte) Document {
	text, _ := jsonscan.Set(d.text, name, value)
	return Document{text: text}
}

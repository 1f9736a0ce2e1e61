package body

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/jsonscan"
)

// Head is what routing needs to know of a request's body.
type Head struct {
	// Model is the model's id as the client names it; empty when the body names
	// none, or not as a string.
	Model string
	// Stream is the member stream.
	Stream bool
	// StreamSet is true when stream is given as true or false.
	StreamSet bool
	// IncludeUsage is the member stream_options.include_usage.
	IncludeUsage bool
}

// Head reads the head of a request's body, whatever else is in it.
func (d Document) Head() Head {
	var h Head
	c := newCursor(d.object())
	for quoted := range c.Members() {
		h.read(c, jsonscan.Name(quoted))
	}
	return h
}

// read steps over the value of a member that it knows.
func (h *Head) read(c *cursor, name []byte) {
	switch string(name) {
	case "model":
		c.text(&h.Model)
	case "stream":
		var stream *bool
		h.StreamSet = c.optBool(&stream)
		h.Stream = h.StreamSet && *stream
	case "stream_options":
		if c.Peek() == '{' {
			h.IncludeUsage = string(jsonscan.Find(c.Value(), "include_usage")) == "true"
		}
	}
}

// SetModel gives body, which has been accepted before, with model as its top-level
// member model, and every other byte as it was. Errors are *FieldError.
func SetModel(body []byte, model string) ([]byte, error) { return SetMemberText(body, "model", model) }

// SetMemberText is SetModel for any member that is a string.
func SetMemberText(body []byte, name, text string) ([]byte, error) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return nil, Errorf(name, "is not valid UTF-8")
	}
	out, ok := jsonscan.Set(body, name, quoted)
	if !ok {
		return nil, Errorf("", "is no JSON object")
	}
	return out, nil
}

// SetMember returns a copy of body in which the top-level member of that name has
// value, a JSON text. It is replaced where it is, or else appended; every
// other byte is as it was. Errors are *FieldError.
func SetMember(body []byte, name string, value []byte) ([]byte, error) {
	if err := checkObject(body, strict); err != nil {
		return nil, fieldErrorOf("", err)
	}
	if err := checkValue(value, strict); err != nil {
		return nil, fieldErrorOf(name, err)
	}
	if !utf8.ValidString(name) {
		return nil, Errorf("", "cannot have a member whose name is not valid UTF-8")
	}
	out, _ := jsonscan.Set(body, name, value)
	if tooDeep(out) {
		return nil, Errorf(name, "makes the body deeper than %d levels", MaxDepth)
	}
	return out, nil
}

package body

import (
	"github.com/go-json-experiment/json/jsontext"
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

// Header reads the head of a request's body, whatever else stands in it. Errors
// are *FieldError.
func Header(body []byte) (Head, error) {
	if err := checkRequest(body); err != nil {
		return Head{}, fieldErrorOf("", err)
	}
	var h Head
	c := cursor{b: body}
	c.members(func(quoted []byte) {
		if !h.read(&c, nameOf(quoted)) {
			c.skip()
		}
	})
	return h, nil
}

// read steps over the value and returns true, or returns false without having
// moved.
func (h *Head) read(c *cursor, name []byte) bool {
	switch string(name) {
	case "model":
		return c.text(&h.Model)
	case "stream":
		var stream *bool
		h.StreamSet = c.optBool(&stream)
		h.Stream = h.StreamSet && *stream
		return h.StreamSet
	case "stream_options":
		if c.kind() != '{' {
			return false
		}
		c.members(func(quoted []byte) {
			if string(nameOf(quoted)) == "include_usage" {
				h.IncludeUsage = c.kind() == 't'
			}
			c.skip()
		})
		return true
	}
	return false
}

// SetModel gives a copy of body in which the top-level member model is model,
// and every other byte as it was. Errors are *FieldError.
func SetModel(body []byte, model string) ([]byte, error) { return SetMemberText(body, "model", model) }

// SetMemberText is SetMember for a value that is a string.
func SetMemberText(body []byte, name, text string) ([]byte, error) {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return nil, Errorf(name, "is not valid UTF-8")
	}
	return SetMember(body, name, quoted)
}

// SetMember gives a copy of body in which the top-level member of that name has
// value, a JSON text. It is replaced where it stands, or else appended; every
// other byte is as it was. Errors are *FieldError.
func SetMember(body []byte, name string, value []byte) ([]byte, error) {
	if err := checkObject(body, strict); err != nil {
		return nil, fieldErrorOf("", err)
	}
	if err := checkValue(value, strict); err != nil {
		return nil, fieldErrorOf(name, err)
	}
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return nil, Errorf("", "cannot have a member whose name is not valid UTF-8")
	}
	at := find(body, name)
	out := make([]byte, 0, len(body)+len(quoted)+len(value)+2)
	out = append(out, body[:at.start]...)
	if !at.found {
		if at.follows {
			out = append(out, ',')
		}
		out = append(append(out, quoted...), ':')
	}
	out = append(out, value...)
	out = append(out, body[at.end:]...)
	if tooDeep(out) {
		return nil, Errorf(name, "makes the body deeper than %d levels", MaxDepth)
	}
	return out, nil
}

// place is where a member's value stands, or where a new member goes.
type place struct {
	start, end int
	found      bool
	// follows is true when there are other members before the place.
	follows bool
}

func find(body []byte, name string) place {
	c := cursor{b: body}
	var at place
	c.kind()
	last := c.i + 1
	c.members(func(quoted []byte) {
		c.kind()
		start := c.i
		c.skip()
		last = c.i
		at.follows = true
		if string(nameOf(quoted)) == name {
			at = place{start: start, end: c.i, found: true}
		}
	})
	if !at.found {
		at.start, at.end = last, last
	}
	return at
}

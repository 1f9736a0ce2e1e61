package body

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// FindMember gives the text of an object's member, nil when it has none of that name or
// is no object. Of two members of one name it is the last.
func FindMember(object []byte, name string) []byte {
	if at := find(object, name); at.found {
		return object[at.from:at.to:at.to]
	}
	return nil
}

// SetMember gives a copy of an object in which the member of that name has value, a JSON
// text: it is replaced where it is, or else becomes the last one. Every other byte
// is as it was. The object itself is returned when there is nothing to change, and
// also when it is none: then ok is false.
func SetMember(object []byte, name string, value []byte) (out []byte, ok bool) {
	at := find(object, name)
	switch {
	case at.bad:
		return object, false
	case at.found && bytes.Equal(object[at.from:at.to], value):
		return object, true
	}
	out = make([]byte, 0, len(object)+len(name)+len(value)+4)
	out = append(out, object[:at.from]...)
	if !at.found {
		if at.follows {
			out = append(out, ',')
		}
		out = AppendName(out, name)
	}
	return append(append(out, value...), object[at.to:]...), true
}

// AppendName writes a member's name and its colon. What is not UTF-8 in it is
// replaced.
func AppendName[S ~string | ~[]byte](dst []byte, name S) []byte {
	dst, _ = jsontext.AppendQuote(dst, name)
	return append(dst, ':')
}

// span is where a member's value is, or where a new member goes.
type span struct {
	from, to int
	found    bool
	follows  bool // there are members before it
	bad      bool // there is no object
}

func find(object []byte, name string) span {
	c := Cursor{Text: object}
	if c.Peek() != '{' {
		return span{bad: true}
	}
	var at span
	last := c.At + 1
	for quoted := range c.Members() {
		found := string(MemberName(quoted)) == name
		value := c.Value()
		last, at.follows = c.At, true
		if found {
			at.from, at.to, at.found = c.At-len(value), c.At, true
		}
	}
	if !at.found {
		at.from, at.to = last, last
	}
	at.bad = c.Bad
	return at
}

package body

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// FindMember returns the JSON text of an object's member. If the name is repeated, it returns the
// last one. It returns nil if the member is missing or object is not a JSON object.
func FindMember(object []byte, name string) []byte {
	if at := find(object, name); at.found {
		return object[at.from:at.to:at.to]
	}
	return nil
}

// SetMember returns a copy of object with a member set to value, a JSON text. It replaces an
// existing member in place and appends a new one. All other bytes stay the same. If nothing
// changes, it returns object itself. ok is false if object is not a JSON object.
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

// AppendName appends a member's name and a colon. Invalid UTF-8 is replaced.
func AppendName[S ~string | ~[]byte](dst []byte, name S) []byte {
	dst, _ = jsontext.AppendQuote(dst, name)
	return append(dst, ':')
}

// span locates a member's value, or where to insert a new member.
type span struct {
	from, to int
	found    bool
	follows  bool // there are members before it
	bad      bool // not an object
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

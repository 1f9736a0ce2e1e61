package body

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks a text that is known to be valid JSON, so no step can fail. Its
// methods that return false have not moved it.
type cursor struct {
	b []byte
	i int
}

// kind gives the first byte of the next value, or 0 at the end.
func (c *cursor) kind() byte {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return c.b[c.i]
		}
	}
	return 0
}

// raw steps over the next value and gives its text.
func (c *cursor) raw() []byte {
	c.kind()
	start := c.i
	c.skip()
	return c.b[start:c.i:c.i]
}

// skip steps over the next value.
func (c *cursor) skip() {
	switch c.kind() {
	case '"':
		c.skipString()
	case '{', '[':
		c.nested()
	default:
		for c.i < len(c.b) && !endsScalar(c.b[c.i]) {
			c.i++
		}
	}
}

func endsScalar(b byte) bool {
	return b == ',' || b == '}' || b == ']' || b == ' ' || b == '\t' || b == '\r' || b == '\n'
}

func (c *cursor) skipString() {
	start := c.i + 1
	c.i = start
	for {
		c.i += bytes.IndexByte(c.b[c.i:], '"') + 1
		if !escaped(c.b[start : c.i-1]) {
			return
		}
	}
}

// escaped tells whether s ends in an odd number of backslashes.
func escaped(s []byte) bool {
	n := len(s)
	for n > 0 && s[n-1] == '\\' {
		n--
	}
	return (len(s)-n)%2 == 1
}

// deepest steps over the next value and tells how deep it is nested.
func (c *cursor) deepest() int {
	if k := c.kind(); k != '{' && k != '[' {
		c.skip()
		return 0
	}
	return c.nested()
}

// nested steps over the next value, an object or array, and tells how deep it
// is nested.
func (c *cursor) nested() int {
	depth, deepest := 0, 0
	for {
		switch c.b[c.i] {
		case '"':
			c.skipString()
			continue
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return deepest
		}
	}
}

// members steps over the next value, an object, and calls member for each of
// its members with the quoted name and the cursor before the value. member
// steps over the value.
func (c *cursor) members(member func(quoted []byte)) {
	c.kind()
	c.i++ // {
	for c.kind() != '}' {
		if c.b[c.i] == ',' {
			c.i++
		}
		name := c.raw()
		c.kind()
		c.i++ // :
		member(name)
	}
	c.i++
}

// elements steps over the next value, an array, and calls element with the
// cursor before each of its elements. It stops, in the middle, when element
// returns false.
func (c *cursor) elements(element func(n int) bool) bool {
	c.kind()
	c.i++ // [
	for n := 0; c.kind() != ']'; n++ {
		if c.b[c.i] == ',' {
			c.i++
		}
		if !element(n) {
			return false
		}
	}
	c.i++
	return true
}

// object steps over the next value, an object. field is called for each member
// with its name and the cursor before the value: it steps over the value and
// returns true, or returns false without having moved, and then the member is
// added to extra as it was written.
func (c *cursor) object(extra *[]byte, field func(name []byte) bool) {
	*extra = nil
	c.members(func(quoted []byte) {
		if field(nameOf(quoted)) {
			return
		}
		value := c.raw()
		b := *extra
		if b == nil {
			b = append(make([]byte, 0, len(quoted)+len(value)+3), '{')
		} else {
			b[len(b)-1] = ','
		}
		b = append(b, quoted...)
		b = append(b, ':')
		b = append(b, value...)
		*extra = append(b, '}')
	})
}

// nameOf gives the name in a quoted name; it allocates only for escapes.
func nameOf(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return unescape(quoted)
}

// textOf gives the text of a quoted string. What is not Unicode in it (half a
// surrogate pair, a stray byte) becomes U+FFFD: Protobuf strings are UTF-8.
func textOf(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return string(unescape(quoted))
}

func unescape(quoted []byte) []byte {
	// The error says that something was replaced by U+FFFD, which is intended.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

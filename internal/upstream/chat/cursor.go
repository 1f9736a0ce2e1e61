package chat

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// cursor walks over JSON without decoding it and without copying. It checks
// only the structure on its way: what it skips is delimited, not validated.
// After the first fault bad is true, and every method finds nothing more.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

func (c *cursor) fail() bool {
	c.bad, c.i = true, len(c.b)
	return false
}

func (c *cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return
		}
	}
}

// peek gives the next byte that is not white space, 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

// enter goes into an object ('{') or an array ('[').
func (c *cursor) enter(open byte) bool {
	if c.peek() != open {
		return c.fail()
	}
	c.i++
	return true
}

// more reports whether an element follows, and leaves the object or array when
// none does. first is true before the first element.
func (c *cursor) more(closer byte, first bool) bool {
	c.space()
	if c.i >= len(c.b) {
		return c.fail()
	}
	switch {
	case c.b[c.i] == closer:
		c.i++
		return false
	case first:
		return true
	case c.b[c.i] == ',':
		c.i++
		return c.peek() != closer || c.fail()
	default:
		return c.fail()
	}
}

// key reads a member's name and its colon. The name is without quotes, and
// with its escapes resolved.
func (c *cursor) key() []byte {
	c.space()
	from := c.i
	if !c.skipString() {
		return nil
	}
	name := c.b[from+1 : c.i-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		// Invalid UTF-8 is an error of AppendUnquote too, but the name is usable.
		name, _ = jsontext.AppendUnquote(nil, c.b[from:c.i])
	}
	if c.peek() != ':' {
		c.fail()
		return nil
	}
	c.i++
	return name
}

// value reads any value and gives its bytes, nil after a fault.
func (c *cursor) value() []byte {
	c.space()
	if c.i >= len(c.b) {
		c.fail()
		return nil
	}
	from := c.i
	var ok bool
	switch c.b[c.i] {
	case '"':
		ok = c.skipString()
	case '{', '[':
		ok = c.skipNested()
	default:
		ok = c.skipLiteral()
	}
	if !ok {
		return nil
	}
	return c.b[from:c.i]
}

func (c *cursor) skipString() bool {
	if c.i >= len(c.b) || c.b[c.i] != '"' {
		return c.fail()
	}
	start := c.i + 1
	for at := start; ; {
		n := bytes.IndexByte(c.b[at:], '"')
		if n < 0 {
			return c.fail()
		}
		at += n + 1
		if !escaped(c.b[start : at-1]) {
			c.i = at
			return true
		}
	}
}

// escaped reports whether what follows b is escaped: b ends in an odd number of
// backslashes.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func (c *cursor) skipNested() bool {
	depth := 0
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			if !c.skipString() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return true
		}
	}
	return c.fail()
}

func (c *cursor) skipLiteral() bool {
	from := c.i
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return c.i > from || c.fail()
		case '"', '{', '[', ':':
			return c.fail()
		}
		c.i++
	}
	return c.i > from
}

// atEnd reports whether nothing but white space is left.
func (c *cursor) atEnd() bool {
	c.space()
	return !c.bad && c.i == len(c.b)
}

func isNull(v []byte) bool { return string(v) == "null" }

func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// inner gives the escaped text between a string's quotes.
func inner(v []byte) []byte { return v[1 : len(v)-1] }

// validJSON is what upstreams send and others can read: repeated names and
// broken UTF-8 are theirs to answer for.
func validJSON(v []byte) bool {
	return jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// memberSpan finds the value of an object's first member called name.
func memberSpan(object []byte, name string) (span, bool) {
	c := cursor{b: object}
	if !c.enter('{') {
		return span{}, false
	}
	for first := true; c.more('}', first); first = false {
		found := string(c.key()) == name
		if v := c.value(); found && v != nil {
			return span{c.i - len(v), c.i}, true
		}
	}
	return span{}, false
}

// member gives the value of an object's member, nil when there is none or it is
// no object.
func member(object []byte, name string) []byte {
	at, ok := memberSpan(object, name)
	if !ok {
		return nil
	}
	return object[at.from:at.to]
}

package body

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor is a position in a JSON text. It finds single members and elements without decoding or
// copying the text, whereas go-json-experiment decodes whole values. It checks only the structure
// that it passes. It finds the end of a skipped value but does not validate the value. After the
// first fault, Bad is true and every method finds nothing, so the cursor never leaves its text,
// whatever the text contains. A copy of a cursor moves independently.
type Cursor struct {
	Text []byte
	At   int
	Bad  bool
}

// NewCursor returns a cursor at the beginning of text.
func NewCursor(text []byte) *Cursor { return &Cursor{Text: text} }

// Fail marks the text as invalid, for callers that find a fault themselves.
func (c *Cursor) Fail() { c.Bad, c.At = true, len(c.Text) }

// Peek skips white space and returns the next byte, or 0 at the end. In valid JSON, the byte
// identifies the kind of the next value.
func (c *Cursor) Peek() byte {
	for ; c.At < len(c.Text); c.At++ {
		switch b := c.Text[c.At]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// AtEnd reports whether only white space is left.
func (c *Cursor) AtEnd() bool { return c.Peek() == 0 && !c.Bad && c.At == len(c.Text) }

// Value reads the next value and returns its text, or nil after a fault.
func (c *Cursor) Value() []byte {
	c.Peek()
	from := c.At
	if c.Skip(); c.Bad {
		return nil
	}
	return c.Text[from:c.At:c.At]
}

// Skip skips the next value.
func (c *Cursor) Skip() {
	switch c.Peek() {
	case '"':
		c.SkipString()
	case '{', '[':
		c.skipNested()
	default:
		c.skipLiteral()
	}
}

// SkipString skips a string that begins at the current byte.
func (c *Cursor) SkipString() {
	if c.At >= len(c.Text) || c.Text[c.At] != '"' {
		c.Fail()
		return
	}
	begin := c.At + 1
	for at := begin; ; {
		n := bytes.IndexByte(c.Text[at:], '"')
		if n < 0 {
			c.Fail()
			return
		}
		at += n + 1
		if !escaped(c.Text[begin : at-1]) {
			c.At = at
			return
		}
	}
}

// escaped reports whether a byte after b is escaped, which is the case if b ends in an odd number
// of backslashes.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func (c *Cursor) skipNested() {
	for depth := 0; c.At < len(c.Text); {
		switch c.Text[c.At] {
		case '"':
			c.SkipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.At++
		if depth == 0 {
			return
		}
	}
	c.Fail()
}

func (c *Cursor) skipLiteral() {
	from := c.At
	for ; c.At < len(c.Text); c.At++ {
		switch c.Text[c.At] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			if c.At == from {
				c.Fail()
			}
			return
		case '"', '{', '[', ':':
			c.Fail()
			return
		}
	}
	if c.At == from {
		c.Fail()
	}
}

// Members yields the quoted name of each member of the next value, which must be an object. In the
// loop, the cursor is before the member's value. Members skips the value if the loop does not read
// it. After a break, the cursor stays where it is.
func (c *Cursor) Members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := c.enter('{', '}'); more; more = c.next('}') {
			c.Peek()
			from := c.At
			c.SkipString()
			quoted := c.Text[from:c.At:c.At]
			if c.Peek() != ':' {
				c.Fail()
				return
			}
			c.At++
			c.Peek() // so that a loop that only peeks does not move the cursor
			value := c.At
			if !yield(quoted) {
				return
			}
			if c.At == value {
				c.Skip()
			}
		}
	}
}

// Elements yields the index of each element of the next value, which must be an array. It moves the
// cursor like Members.
func (c *Cursor) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		n := 0
		for more := c.enter('[', ']'); more; more = c.next(']') {
			value := c.At
			if !yield(n) {
				return
			}
			if c.At == value {
				c.Skip()
			}
			n++
		}
	}
}

// enter steps into an object or array and reports whether it has an element.
func (c *Cursor) enter(opener, closer byte) bool {
	if c.Peek() != opener {
		c.Fail()
		return false
	}
	c.At++
	if c.Peek() != closer {
		return !c.Bad
	}
	c.At++
	return false
}

// next steps to the next element, or out of the object or array at its end.
func (c *Cursor) next(closer byte) bool {
	switch c.Peek() {
	case closer:
		c.At++
		return false
	case ',':
		c.At++
		if c.Peek() != closer {
			return true
		}
	}
	c.Fail()
	return false
}

// MemberName returns the text of a quoted name, and copies it only if it contains escapes. Invalid
// Unicode in an escape becomes U+FFFD.
func MemberName(quoted []byte) []byte {
	if len(quoted) < len(`""`) {
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return Unquote(quoted)
}

// Unquote returns a copy of the text of a JSON string. Invalid Unicode (half a surrogate pair, a
// stray byte) becomes U+FFFD.
func Unquote(quoted []byte) []byte {
	// The error only reports that something was replaced.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

package body

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor is a place in a JSON text. It walks over the text without decoding or copying it: for
// single members and elements. Whole values are decoded by go-json-experiment. It checks only the structure that it passes:
// what it skips is delimited, not validated. After the first fault Bad is true and
// every method finds nothing more, so that it never leaves its text, whatever that
// is. A copy of a cursor goes on from the same place by itself.
type Cursor struct {
	Text []byte
	At   int
	Bad  bool
}

// NewCursor gives a cursor at the beginning of a text.
func NewCursor(text []byte) *Cursor { return &Cursor{Text: text} }

// Fail notes a fault: the text is not what the caller needs.
func (c *Cursor) Fail() { c.Bad, c.At = true, len(c.Text) }

// Peek gives the next byte that is not white space, 0 at the end. Of valid JSON
// the byte tells the kind of the next value.
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

// AtEnd reports whether nothing but white space is left.
func (c *Cursor) AtEnd() bool { return c.Peek() == 0 && !c.Bad && c.At == len(c.Text) }

// Value reads the next value and gives its text, nil after a fault.
func (c *Cursor) Value() []byte {
	c.Peek()
	from := c.At
	if c.Skip(); c.Bad {
		return nil
	}
	return c.Text[from:c.At:c.At]
}

// Skip steps over the next value.
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

// SkipString steps over a string, which begins right here.
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

// escaped reports whether what follows b is escaped: b ends in an odd number of
// backslashes.
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

// Members walks through the next value, an object. It yields the quoted name of
// each member, with the cursor before the member's value, and steps over a value
// that the loop leaves. A loop that breaks leaves the cursor where it is.
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
			c.Peek() // so that a loop which only peeks has not moved the cursor
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

// Elements walks through the next value, an array, as Members does. It yields the
// index of each element.
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

// enter steps into an object or array, and reports whether it has an element.
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

// next steps to the next element, or out of the object or array when there is none.
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

// MemberName gives the text of a quoted name without copying it, unless there are escapes.
// What is not Unicode in an escape becomes U+FFFD.
func MemberName(quoted []byte) []byte {
	if len(quoted) < len(`""`) {
		return nil
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	return Unquote(quoted)
}

// Unquote gives a copy of the text of a JSON string. What is not Unicode in it
// (half a surrogate pair, a stray byte) becomes U+FFFD.
func Unquote(quoted []byte) []byte {
	// The error says that something was replaced, which is intended.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

package body

import (
	"bytes"
	"unicode/utf8"
)

// cursor reads valid JSON into typed fields. Its methods that return false have not
// moved it.
type cursor struct{ Cursor }

func newCursor(text []byte) *cursor { return &cursor{Cursor{Text: text}} }

// object steps over the next value, an object. field is called for each member
// with its name and the cursor before the value: it steps over the value and
// returns true, or returns false without having moved, and then the member is
// added to extra as it was written.
func (c *cursor) object(extra *[]byte, field func(name []byte) bool) {
	*extra = nil
	for quoted := range c.Members() {
		if field(MemberName(quoted)) {
			continue
		}
		value := c.Value()
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
	}
}

// textOf gives the text of a quoted string. What is not Unicode in it (half a
// surrogate pair, a stray byte) becomes U+FFFD: Protobuf strings are UTF-8.
func textOf(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return string(Unquote(quoted))
}

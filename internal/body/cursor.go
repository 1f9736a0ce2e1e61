package body

import (
	"bytes"
	"unicode/utf8"
)

// cursor reads valid JSON into typed fields. A method that returns false does not move the cursor.
type cursor struct{ Cursor }

func newCursor(text []byte) *cursor { return &cursor{Cursor{Text: text}} }

// object reads the next value, an object. It calls field for each member, with the cursor before
// the value. field must either read the value and return true, or return false without moving the
// cursor. In the latter case the member is added to extra as written.
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

// textOf returns the text of a quoted string. Invalid Unicode (half a surrogate pair, a stray byte)
// becomes U+FFFD, because Protobuf strings are UTF-8.
func textOf(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	return string(Unquote(quoted))
}

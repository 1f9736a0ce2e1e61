package body

import (
	"bytes"
	"math"
	"strconv"
)

// The functions below read the next value into a typed field. If the field cannot express the
// value, they return false and change neither the cursor nor the field.

// text reads a string into a field without presence, which cannot express "".
func (c *cursor) text(dst *string) bool {
	if c.Peek() != '"' || c.Text[c.At+1] == '"' {
		return false
	}
	*dst = wordOf(c.Value())
	return true
}

func (c *cursor) optText(dst **string) bool {
	if c.Peek() != '"' {
		return false
	}
	s := wordOf(c.Value())
	*dst = &s
	return true
}

// wordOf is like textOf but does not allocate for words that every block of a stream repeats.
func wordOf(quoted []byte) string {
	switch string(quoted) {
	case `"chat.completion.chunk"`:
		return "chat.completion.chunk"
	case `"assistant"`:
		return "assistant"
	case `"function"`:
		return "function"
	case `""`:
		return ""
	}
	return textOf(quoted)
}

func (c *cursor) optBool(dst **bool) bool {
	k := c.Peek()
	if k != 't' && k != 'f' {
		return false
	}
	c.Skip()
	v := k == 't'
	*dst = &v
	return true
}

// integer reads a whole number, also in the form 5.0 or 5e0 that some serialisers write.
func (c *cursor) integer() (int64, bool) {
	if !isNumber(c.Peek()) {
		return 0, false
	}
	start := c.At
	v, ok := parseInteger(c.Value())
	if !ok {
		c.At = start
	}
	return v, ok
}

func isNumber(kind byte) bool { return kind == '-' || kind >= '0' && kind <= '9' }

func parseInteger(text []byte) (int64, bool) {
	// These conversions do not allocate, because ParseInt and ParseFloat keep no reference to the
	// string.
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return v, true
	}
	if !bytes.ContainsAny(text, ".eE") {
		return 0, false
	}
	const exact = 1 << 53
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > exact {
		return 0, false
	}
	return int64(f), true
}

// int64 reads into a field without presence, which cannot express 0.
func (c *cursor) int64(dst *int64) bool {
	start := c.At
	v, ok := c.integer()
	if !ok || v == 0 {
		c.At = start
		return false
	}
	*dst = v
	return true
}

// position reads an int32, including 0, which is always written.
func (c *cursor) position(dst *int32) bool {
	start := c.At
	v, ok := c.integer()
	if !ok || v < math.MinInt32 || v > math.MaxInt32 {
		c.At = start
		return false
	}
	*dst = int32(v)
	return true
}

func (c *cursor) optInt64(dst **int64) bool {
	v, ok := c.integer()
	if ok {
		*dst = &v
	}
	return ok
}

func (c *cursor) optInt32(dst **int32) bool {
	var v int32
	ok := c.position(&v)
	if ok {
		*dst = &v
	}
	return ok
}

// nearest reads the double nearest to a number. It fails for a number beyond the range of a double.
func (c *cursor) nearest(dst *float64) bool {
	if !isNumber(c.Peek()) {
		return false
	}
	start := c.At
	v, err := strconv.ParseFloat(string(c.Value()), 64)
	if err != nil {
		c.At = start
		return false
	}
	*dst = v
	return true
}

// octets reads a non-empty list of numbers from 0 to 255.
func (c *cursor) octets(dst *[]byte) bool {
	var list []byte
	ok := c.list(func() bool {
		v, ok := c.integer()
		if !ok || v < 0 || v > math.MaxUint8 {
			return false
		}
		list = append(list, byte(v))
		return true
	})
	if !ok || len(list) == 0 {
		return false
	}
	*dst = list
	return true
}

// list reads a non-empty list.
func (c *cursor) list(element func() bool) bool {
	if c.Peek() != '[' {
		return false
	}
	start := c.At
	n := 0
	for range c.Elements() {
		n++
		if !element() {
			c.At = start
			return false
		}
	}
	if n == 0 {
		c.At = start
	}
	return n > 0
}

func one[T any](c *cursor, dst **T, read func(*cursor, *T)) bool {
	if c.Peek() != '{' {
		return false
	}
	m := new(T)
	read(c, m)
	*dst = m
	return true
}

// many reads a list of objects, which may be empty.
func many[T any](c *cursor, dst *[]*T, read func(*cursor, *T)) bool {
	if c.Peek() != '[' {
		return false
	}
	start := c.At
	var list []*T
	for range c.Elements() {
		var m *T
		if !one(c, &m, read) {
			c.At = start
			return false
		}
		list = append(list, m)
	}
	*dst = list
	return true
}

// some is like many but requires a non-empty list.
func some[T any](c *cursor, dst *[]*T, read func(*cursor, *T)) bool {
	start := c.At
	var list []*T
	if !many(c, &list, read) || len(list) == 0 {
		c.At = start
		return false
	}
	*dst = list
	return true
}

package chat

import "github.com/genbus/genbus/internal/body"

// Limits of what is worth remembering of a chunk.
const (
	maxHoles = 4
	maxShape = 4 << 10
)

// shape is an uneventful chunk with holes where its text was. The chunks of a
// stream differ in little else, so most of them need no walk: a chunk that fits the
// shape has the same structure, byte for byte, and only other text.
type shape struct {
	sample []byte
	holes  [maxHoles]span
	n      int
}

// span is sample[from:to], a string with its quotes.
type span struct{ from, to int }

// hole remembers that c has just read the string v, while a chunk is walked.
func (s *shape) hole(c *body.Cursor, v []byte) {
	if isString(v) && s.n < maxHoles {
		s.holes[s.n] = span{c.At - len(v), c.At}
		s.n++
	}
}

// forget drops the shape; holes are collected again after it.
func (s *shape) forget() { s.n = 0 }

// keep makes block, whose holes have been collected, the sample.
func (s *shape) keep(block []byte) {
	if len(block) > maxShape {
		s.forget()
		return
	}
	s.sample = append(s.sample[:0], block...)
}

// fits reports whether block differs from the sample only within the holes.
func (s *shape) fits(block []byte) bool {
	_, ok := s.match(block)
	return ok
}

// match is fits, and gives the strings in the holes.
func (s *shape) match(block []byte) (strings [maxHoles][]byte, ok bool) {
	if s.n == 0 {
		return strings, false
	}
	c, from := body.Cursor{Text: block}, 0
	for i, h := range s.holes[:s.n] {
		same := s.sample[from:h.from]
		if len(block)-c.At < len(same) || string(block[c.At:c.At+len(same)]) != string(same) {
			return strings, false
		}
		c.At += len(same)
		begin := c.At
		if c.SkipString(); c.Bad {
			return strings, false
		}
		strings[i] = block[begin:c.At]
		from = h.to
	}
	return strings, string(block[c.At:]) == string(s.sample[from:])
}

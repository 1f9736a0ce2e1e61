package chat

import "github.com/genbus/genbus/internal/body"

// Limits on the chunks that are remembered.
const (
	maxHoles = 4
	maxShape = 4 << 10
)

// shape is a chunk with holes in place of its strings. Most chunks of a stream differ only in text.
// A chunk that matches the shape byte for byte outside the holes has the same structure and need
// not be walked.
type shape struct {
	sample []byte
	holes  [maxHoles]span
	n      int
}

// span is sample[from:to], a string including its quotes.
type span struct{ from, to int }

// hole records that c has just read the string v.
func (s *shape) hole(c *body.Cursor, v []byte) {
	if isString(v) && s.n < maxHoles {
		s.holes[s.n] = span{c.At - len(v), c.At}
		s.n++
	}
}

// reset discards the shape, so that new holes can be recorded.
func (s *shape) reset() { s.n = 0 }

// keep makes block, whose holes are recorded, the sample.
func (s *shape) keep(block []byte) {
	if len(block) > maxShape {
		s.reset()
		return
	}
	s.sample = append(s.sample[:0], block...)
}

// fits reports whether block differs from the sample only in the holes.
func (s *shape) fits(block []byte) bool {
	_, ok := s.match(block)
	return ok
}

// match is like fits but also returns the strings in the holes.
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

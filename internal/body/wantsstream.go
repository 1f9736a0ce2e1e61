package body

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// WantsStream tells whether a chat body asks for a stream: whether its top-level
// member stream is true. It only chooses how the call is made, so it does not
// validate; admission does. For every body that admission takes it is exact.
func WantsStream(raw []byte) bool {
	s := scanner{b: raw}
	if s.next() != '{' {
		return false
	}
	s.i++
	for s.next() == '"' {
		name := s.string()
		if s.next() != ':' {
			return false
		}
		s.i++
		value := s.next()
		if isStream(name) {
			return value == 't'
		}
		s.skip(value)
		if s.next() != ',' {
			return false
		}
		s.i++
	}
	return false
}

// isStream compares a quoted name.
func isStream(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted) == `"stream"`
	}
	name, err := jsontext.AppendUnquote(nil, quoted)
	return err == nil && string(name) == "stream"
}

// scanner steps through JSON that may be broken; it never leaves b.
type scanner struct {
	b []byte
	i int
}

// next is the next byte that is no white space, or 0 at the end.
func (s *scanner) next() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// string steps over a quoted string and gives it.
func (s *scanner) string() []byte {
	start := s.i
	s.i++
	for s.i < len(s.b) {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.i = len(s.b)
			break
		}
		end := s.i + n
		s.i = end + 1
		if !s.escapedAt(start+1, end) {
			break
		}
	}
	return s.b[start:s.i]
}

// escapedAt tells whether an odd number of backslashes stands before end.
func (s *scanner) escapedAt(start, end int) bool {
	n := 0
	for end > start && s.b[end-1] == '\\' {
		n, end = n+1, end-1
	}
	return n%2 == 1
}

// skip steps over a value that begins with c.
func (s *scanner) skip(c byte) {
	switch c {
	case '"':
		s.string()
	case '{', '[':
		s.skipNested()
	default:
		for s.i < len(s.b) && s.b[s.i] != ',' && s.b[s.i] != '}' {
			s.i++
		}
	}
}

func (s *scanner) skipNested() {
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.string()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
}

package body

import "strconv"

// single is the index of a step to a field that is no list.
const single = -1

// step is a field on the way to a value, and the position in it or single.
type step struct {
	name  string
	index int
}

// path is the way to a value from the outside.
type path []step

// to gives the path to a field, such as "chat.messages[2].role". The field is
// empty for what the path itself leads to.
func (p path) to(field string) string {
	var b []byte
	for _, s := range p {
		if len(b) > 0 {
			b = append(b, '.')
		}
		b = append(b, s.name...)
		if s.index != single {
			b = append(b, '[')
			b = strconv.AppendInt(b, int64(s.index), 10)
			b = append(b, ']')
		}
	}
	if len(b) > 0 && field != "" {
		b = append(b, '.')
	}
	return string(append(b, field...))
}

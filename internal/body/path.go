package body

import "strconv"

// single is the index in a step to a field that is not a list.
const single = -1

// step is a field on the path to a value, with an index if the field is a list, and single
// otherwise.
type step struct {
	name  string
	index int
}

type path []step

// to returns the path to a field, such as "chat.messages[2].role". If field is empty, it returns
// the path itself.
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

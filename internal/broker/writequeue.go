package broker

// writeQueue is writes that wait to be sent, in their order. Those that were given up meanwhile
// stay until they are passed over, and do not count.
type writeQueue struct {
	writes []*write
	live   int
}

func (q *writeQueue) push(op *write) {
	op.state, op.waits = writeQueued, q
	q.writes = append(q.writes, op)
	q.live++
}

// pop takes the first write; nil where none waits.
func (q *writeQueue) pop() *write {
	for len(q.writes) > 0 {
		op := q.writes[0]
		q.writes[0] = nil
		q.writes = q.writes[1:]
		if op.state == writeQueued {
			q.live--
			return op
		}
	}
	q.writes = nil
	return nil
}

// take takes writes in their order as long as there is one and f says so of it: take it, or
// leave it where it is, or stop.
func (q *writeQueue) take(f func(*write) choice) (out []*write) {
	rest := make([]*write, 0, len(q.writes))
	for i, op := range q.writes {
		if op.state != writeQueued { // given up
			continue
		}
		switch f(op) {
		case choiceTake:
			q.live--
			out = append(out, op)
		case choiceLeave:
			rest = append(rest, op)
		case choiceStop:
			q.writes = append(rest, q.writes[i:]...)
			return out
		}
	}
	q.writes = rest
	return out
}

type choice int

const (
	choiceTake choice = iota
	choiceLeave
	choiceStop
)

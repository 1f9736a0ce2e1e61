package streamwrite

// queue is the writes of a lane that wait to be sent, in their order. Those that were given
// up meanwhile stay until they are passed over.
type queue struct {
	writes []*write
}

func (q *queue) push(op *write) { q.writes = append(q.writes, op) }

// pop takes the first write; nil where none waits.
func (q *queue) pop() *write {
	for len(q.writes) > 0 {
		op := q.writes[0]
		q.writes[0] = nil
		q.writes = q.writes[1:]
		if op.state == queued {
			return op
		}
	}
	q.writes = nil
	return nil
}

// take takes the writes of which f is true, in their order.
func (q *queue) take(f func(*write) bool) (out []*write) {
	rest := q.writes[:0]
	for _, op := range q.writes {
		switch {
		case op.state != queued: // given up
		case f(op):
			out = append(out, op)
		default:
			rest = append(rest, op)
		}
	}
	clear(q.writes[len(rest):])
	q.writes = rest
	return out
}

// size is how many writes wait, those included that were given up.
func (q *queue) size() int { return len(q.writes) }

package broker

// writeQueue is a FIFO queue of writes to send. An abandoned write stays in writes until pop or
// take skips it, but live does not count it.
type writeQueue struct {
	writes []*write
	live   int
}

func (q *writeQueue) push(op *write) {
	op.state, op.waits = writeQueued, q
	q.writes = append(q.writes, op)
	q.live++
}

// pop removes and returns the first live write, or nil if there is none.
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

// take removes and returns the writes for which f returns choiceTake, in order. choiceKeep keeps a
// write in the queue, and choiceStop ends the scan.
func (q *writeQueue) take(f func(*write) choice) (out []*write) {
	rest := make([]*write, 0, len(q.writes))
	for i, op := range q.writes {
		if op.state != writeQueued { // abandoned
			continue
		}
		switch f(op) {
		case choiceTake:
			q.live--
			out = append(out, op)
		case choiceKeep:
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
	choiceKeep
	choiceStop
)

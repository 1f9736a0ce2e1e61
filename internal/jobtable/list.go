package jobtable

import (
	"github.com/tidwall/btree"

	"github.com/genbus/genbus/internal/subject"
)

type listKey struct {
	kind   subject.Kind
	tenant string
}

// list is the jobs of one kind and tenant.
type list struct {
	rows *btree.BTreeG[Row] // by (created, id); when the log is read they come in any order
	// cut is the newest row that fell out. Jobs before it that have ended are not taken in
	// again: after it the rows have no gaps, and before it they are of jobs that had not ended.
	cut Row
	// unfinished counts the jobs that have not ended, those included that fell out of
	// the rows: evicted has them by their ids.
	unfinished int
	evicted    map[string]evictedJob
}

// evictedJob is what is known of an unfinished job whose row fell out.
type evictedJob struct {
	created int64
	seq     uint64 // of its latest event
}

func newList() *list {
	return &list{rows: btree.NewBTreeGOptions(func(a, b Row) bool { return compareRows(a, b) < 0 }, btree.Options{NoLocks: true})}
}

func (l *list) isEmpty() bool { return l.rows.Len() == 0 && len(l.evicted) == 0 }

// find gives the row of a job, the newest where the id was used again.
func (l *list) find(id string) (found Row, ok bool) {
	l.rows.Reverse(func(r Row) bool {
		if ok = r.ID == id; ok {
			found = r
		}
		return !ok
	})
	return found, ok
}

// change gives a row what a later event says.
func (l *list) change(before, r Row) {
	l.count(before.unfinished, r.unfinished)
	r.ID = before.ID // the same, in the memory that is kept
	l.rows.Set(r)
}

// remove drops a row, whose job counts no more.
func (l *list) remove(r Row) {
	l.count(r.unfinished, false)
	l.rows.Delete(r)
}

// count follows a row that has changed.
func (l *list) count(before, after bool) {
	switch {
	case after && !before:
		l.unfinished++
	case before && !after:
		l.unfinished--
	}
}

// drop lets n rows fall out: the oldest of jobs that have ended, as one looks for the others
// while they are stuck, and where these are fewer, the oldest of the others too.
func (l *list) drop(n int) {
	var ended, others []Row
	l.rows.Scan(func(r Row) bool {
		if !r.unfinished {
			ended = append(ended, r)
		} else if len(others) < n {
			others = append(others, r)
		}
		return len(ended) < n
	})
	for _, r := range append(ended, others...)[:n] {
		l.rows.Delete(r)
		l.keep(r)
		if compareRows(r, l.cut) > 0 {
			l.cut = Row{Created: r.Created, ID: r.ID}
		}
	}
}

// fellOut reports whether a job without a row has had one, as far as that is known: if it has
// ended, it is not taken in again.
func (l *list) fellOut(r Row) bool {
	known, kept := l.evicted[r.ID]
	return kept && known.created == r.Created || compareRows(r, l.cut) <= 0 && !r.unfinished
}

// recount follows a job that fell out of the rows.
func (l *list) recount(r Row) {
	if known, kept := l.evicted[r.ID]; kept && known.created == r.Created && r.Seq < known.seq {
		return // an earlier event
	}
	l.count(l.recall(r), r.unfinished)
	l.keep(r)
}

// keep remembers a job whose row falls out of the index, if it has not ended: it goes on
// counting until it does.
func (l *list) keep(r Row) {
	if !r.unfinished {
		return
	}
	if l.evicted == nil {
		l.evicted = map[string]evictedJob{}
	}
	l.evicted[r.ID] = evictedJob{created: r.Created, seq: r.Seq}
}

// recall reports whether a job that re-enters the index is counted already.
func (l *list) recall(r Row) bool {
	known, kept := l.evicted[r.ID]
	if !kept || known.created != r.Created {
		return false
	}
	delete(l.evicted, r.ID)
	return true
}

// lose drops a job whose row fell out, unless a later event of it was heard than r has.
func (l *list) lose(r Row) {
	if known, kept := l.evicted[r.ID]; kept && known.created == r.Created && known.seq <= r.Seq {
		l.count(l.recall(r), false)
	}
}

package jobtable

import (
	"github.com/tidwall/btree"

	"github.com/genbus/genbus/internal/subject"
)

type listKey struct {
	kind   subject.Kind
	tenant string
}

// list holds the rows of one kind and tenant.
type list struct {
	rows *btree.BTreeG[Row] // ordered by (created, id); events arrive in any order while the log is read
	// cut is the newest evicted row. Ended jobs up to cut are not inserted again. Therefore the
	// rows after cut have no gaps, and any rows before it belong to jobs that had not ended when
	// cut moved.
	cut     Row
	retries retries // the rows that repeat another job
	// unfinished counts the jobs that have not ended, including evicted ones. evicted holds the
	// evicted ones by ID.
	unfinished int
	evicted    map[string]evictedJob
}

// evictedJob identifies the latest known event of an unfinished job whose row was evicted.
type evictedJob struct {
	created int64
	seq     uint64 // sequence of its latest event
}

func newList() *list {
	return &list{rows: btree.NewBTreeGOptions(func(a, b Row) bool { return compareRows(a, b) < 0 }, btree.Options{NoLocks: true})}
}

func (l *list) isEmpty() bool { return l.rows.Len() == 0 && len(l.evicted) == 0 }

// find returns the newest row with a job ID. An ID may have been used more than once.
func (l *list) find(id string) (found Row, ok bool) {
	l.rows.Reverse(func(r Row) bool {
		if ok = r.ID == id; ok {
			found = r
		}
		return !ok
	})
	return found, ok
}

func (l *list) change(before, r Row) {
	l.count(before.unfinished, r.unfinished)
	r.ID = before.ID // the same ID, but in memory that the row already uses
	l.retries.change(before, r)
	l.rows.Set(r)
}

func (l *list) remove(r Row) {
	l.count(r.unfinished, false)
	l.delete(r)
}

// delete deletes a row without changing the count of unfinished jobs.
func (l *list) delete(r Row) {
	l.retries.change(r, Row{})
	l.rows.Delete(r)
}

// count adjusts unfinished for a row that changed from before to after.
func (l *list) count(before, after bool) {
	switch {
	case after && !before:
		l.unfinished++
	case before && !after:
		l.unfinished--
	}
}

// drop evicts n rows, the oldest ended jobs first. It evicts the oldest unfinished jobs only if
// there are not enough ended ones, because operators search for unfinished jobs when jobs are
// stuck.
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
		l.delete(r)
		l.keep(r)
		if compareRows(r, l.cut) > 0 {
			l.cut = Row{Created: r.Created, ID: r.ID}
		}
	}
}

// fellOut reports whether r must not be inserted again. This is the case if its job was evicted
// before it ended, or has ended and is not newer than cut.
func (l *list) fellOut(r Row) bool {
	known, kept := l.evicted[r.ID]
	return kept && known.created == r.Created || compareRows(r, l.cut) <= 0 && !r.unfinished
}

// recount updates unfinished for an event of an evicted job.
func (l *list) recount(r Row) {
	if known, kept := l.evicted[r.ID]; kept && known.created == r.Created && r.Seq < known.seq {
		return // stale event
	}
	l.count(l.recall(r), r.unfinished)
	l.keep(r)
}

// keep remembers an evicted job that has not ended, so that the job counts until it ends.
func (l *list) keep(r Row) {
	if !r.unfinished {
		return
	}
	if l.evicted == nil {
		l.evicted = map[string]evictedJob{}
	}
	l.evicted[r.ID] = evictedJob{created: r.Created, seq: r.Seq}
}

// recall reports whether unfinished already includes an evicted job. It removes the job from
// evicted.
func (l *list) recall(r Row) bool {
	known, kept := l.evicted[r.ID]
	if !kept || known.created != r.Created {
		return false
	}
	delete(l.evicted, r.ID)
	return true
}

// lose stops counting an evicted job, unless an event later than r has arrived for it.
func (l *list) lose(r Row) {
	if known, kept := l.evicted[r.ID]; kept && known.created == r.Created && known.seq <= r.Seq {
		l.count(l.recall(r), false)
	}
}

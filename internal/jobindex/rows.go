package jobindex

import (
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

type listKey struct {
	kind   subject.Kind
	tenant string
}

// list is sorted by (created, id), oldest first, because new jobs come at the
// end.
type list struct {
	rows []row
	// cut is the newest row that fell out. Those before it are not taken in again: the rows
	// are the newest jobs, without gaps.
	cut row
	// unfinished are the jobs that have not ended, those included that fell out of
	// the rows: evicted has their ids, and what their latest events take.
	unfinished joblog.Unfinished
	evicted    map[string]int
}

type row struct {
	created    int64 // Unix nanoseconds
	id         string
	status     string
	seq        uint64 // of the latest event that is known
	unfinished int    // what its latest event takes in the log, in bytes; 0 where it has ended
}

func compareRows(a, b row) int {
	if a.created != b.created {
		if a.created < b.created {
			return -1
		}
		return 1
	}
	return strings.Compare(a.id, b.id)
}

// find gives the row of a job, the newest where the id was used again.
func (l *list) find(id string) (row, bool) {
	for _, r := range slices.Backward(l.rows) {
		if r.id == id {
			return r, true
		}
	}
	return row{}, false
}

// change gives a row what a later event says.
func (l *list) change(at int, r row) {
	l.count(l.rows[at].unfinished, r.unfinished)
	l.rows[at].status, l.rows[at].seq, l.rows[at].unfinished = r.status, r.seq, r.unfinished
}

// count follows a row that has changed.
func (l *list) count(before, after int) {
	l.unfinished.Bytes += int64(after - before)
	switch {
	case after > 0 && before == 0:
		l.unfinished.Jobs++
	case before > 0 && after == 0:
		l.unfinished.Jobs--
	}
}

// drop lets the n oldest rows fall out.
func (l *list) drop(n int) {
	l.keep(l.rows[:n])
	l.cut = l.rows[n-1]
	l.rows = slices.Delete(l.rows, 0, n)
}

// recount follows a job that fell out of the rows.
func (l *list) recount(r row) {
	l.count(l.recall(r.id), r.unfinished)
	l.keep([]row{r})
}

// keep remembers the unfinished jobs among rows that fall out of the index: they
// go on counting until they end.
func (l *list) keep(rows []row) {
	for _, r := range rows {
		if r.unfinished == 0 {
			continue
		}
		if l.evicted == nil {
			l.evicted = map[string]int{}
		}
		l.evicted[r.id] = r.unfinished
	}
}

// recall is what a job counts with already that comes back into the index.
func (l *list) recall(id string) int {
	bytes := l.evicted[id]
	delete(l.evicted, id)
	return bytes
}

// Package jobtable holds the index of jobs in memory and answers lists, searches, counts and rates
// from it.
package jobtable

import (
	"slices"
	"strings"
	"sync"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Table holds the newest jobs of each tenant and kind, and unfinished jobs. When it reaches its
// limit, it evicts the oldest jobs, ended ones first. They remain in the log.
type Table struct {
	limit int

	mu    sync.RWMutex
	lists map[listKey]*list
	size  int
	since int64 // creation time of the newest evicted job, Unix nanoseconds, or 0
}

// New returns a table of at most limit rows.
func New(limit int) *Table { return &Table{limit: limit, lists: map[listKey]*list{}} }

// Put applies an event from the log. It reports whether the table already had this event or an
// earlier one of the same job. It does not copy the event's ID.
func (x *Table) Put(s joblog.Summary) (known bool) { return x.put(s.Name, rowOf(s)) }

// Wrote applies an event by which this replica has just created or ended a job, before the log
// delivers it. It does not copy the event's ID.
func (x *Table) Wrote(s joblog.Summary) { x.wrote(s.Name, rowOf(s)) }

// put implements Put.
func (x *Table) put(n subject.JobName, r Row) (known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	before, found := l.rows.Get(r)
	known = found && before.Seq <= r.Seq
	switch {
	case !found && l.fellOut(r):
		_, known = l.evicted[r.ID]
		l.recount(r)
		x.drop(listKey{n.Kind, n.Tenant})
	case !found:
		x.insert(l, r)
	case r.Seq < before.Seq, before.erased && r.Seq == before.Seq, task.TerminalWord(before.Status) && !task.TerminalWord(r.Status):
		// The event is stale, possibly because this replica has already ended the job.
	default:
		l.change(before, r)
	}
	return known
}

// wrote implements Wrote. The creation of a job never replaces a row, because the row may stem from
// a later event that the log has already delivered.
func (x *Table) wrote(n subject.JobName, r Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ended := task.TerminalWord(r.Status)
	l := x.list(n)
	before, found := l.rows.Get(r)
	switch {
	case !found && compareRows(r, l.cut) <= 0:
		if ended { // ignore a creation, because the log may already have delivered the job's end
			l.recount(r)
		}
		x.drop(listKey{n.Kind, n.Tenant})
	case !found:
		x.insert(l, r)
	case ended && (!before.erased || r.Seq > before.Seq):
		l.change(before, r)
	}
}

func (x *Table) list(n subject.JobName) *list {
	l := x.lists[listKey{n.Kind, n.Tenant}]
	if l == nil {
		l = newList()
		// Clone: the tenant shares the message's memory.
		x.lists[listKey{n.Kind, strings.Clone(n.Tenant)}] = l
	}
	return l
}

func (x *Table) insert(l *list, r Row) {
	l.count(l.recall(r), r.unfinished)
	l.retries.change(Row{}, r)
	l.rows.Set(r)
	if x.size++; x.size > x.limit {
		x.evict()
	}
}

// evict drops a hundredth of the limit, but at least one row. It takes the oldest rows of the
// longest lists, so that one busy tenant does not displace the others. Dropping many rows at once
// amortizes the cost of scanning all lists. If there are more tenants than rows, some tenants have
// no rows.
func (x *Table) evict() {
	n := max(x.limit/100, 1)
	longest := x.longest(n)
	for key, l := range x.lists {
		if n <= 0 {
			return
		}
		if cut := min(l.rows.Len()-longest, n); cut > 0 {
			l.drop(cut)
			if l.cut.Created > x.since {
				x.since = l.cut.Created
			}
			x.size -= cut
			n -= cut
			x.drop(key)
		}
	}
}

// longest returns the length to which lists must be cut so that at least n rows are dropped.
func (x *Table) longest(n int) int {
	lengths := make([]int, 0, len(x.lists))
	for _, l := range x.lists {
		if n := l.rows.Len(); n > 0 { // lists without rows have only evicted jobs
			lengths = append(lengths, n)
		}
	}
	slices.Sort(lengths)
	slices.Reverse(lengths)
	sum := 0
	for i, length := range lengths {
		sum += length
		next := 0
		if i+1 < len(lengths) {
			next = lengths[i+1]
		}
		// Cutting the i+1 longest lists to the length of the next one drops sum-(i+1)*next rows.
		if sum-(i+1)*next >= n {
			return (sum - n) / (i + 1)
		}
	}
	return 0
}

// Expire removes jobs whose last event has aged out of the log. first is the log's first sequence.
func (x *Table) Expire(first uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, l := range x.lists {
		var old []Row
		l.rows.Scan(func(r Row) bool {
			if r.Seq < first {
				old = append(old, r)
			}
			return true
		})
		for _, r := range old {
			l.remove(r)
		}
		x.size -= len(old)
		for id, known := range l.evicted {
			if known.seq < first {
				l.lose(Row{ID: id, Created: known.created, Seq: known.seq})
			}
		}
		x.drop(key)
	}
}

// Erase hides a job from searches, unless an event later than r has arrived for it. The row stays
// so that late events do not bring the job back.
func (x *Table) Erase(n subject.JobName, r Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	l.lose(r)
	r.unfinished, r.facts = false, facts{erased: true}
	switch before, found := l.rows.Get(r); {
	case !found:
		x.insert(l, r)
	case before.Seq <= r.Seq:
		r.Status = before.Status
		l.change(before, r)
	}
	x.drop(listKey{n.Kind, n.Tenant})
}

// Remove removes a job that the log no longer has, unless an event later than r has arrived for it.
func (x *Table) Remove(n subject.JobName, r Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.lists[listKey{n.Kind, n.Tenant}]
	if l == nil {
		return
	}
	if known, found := l.rows.Get(r); found && known.Seq <= r.Seq {
		l.remove(known)
		x.size--
	} else if !found {
		l.lose(r)
	}
	x.drop(listKey{n.Kind, n.Tenant})
}

// drop deletes an empty list. Publishers can invent tenant names, so empty lists would accumulate.
func (x *Table) drop(key listKey) {
	if l := x.lists[key]; l != nil && l.isEmpty() { // an insertion may already have removed the list
		delete(x.lists, key)
	}
}

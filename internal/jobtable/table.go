// Package jobtable holds in memory what the index knows of jobs, and answers lists, searches,
// counts and rates from it.
package jobtable

import (
	"slices"
	"strings"
	"sync"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Table knows the newest jobs of each tenant and kind, and those that have not ended. It is
// bounded: the oldest jobs fall out of it (not out of the log), first those that have ended.
type Table struct {
	limit int

	mu    sync.RWMutex
	lists map[listKey]*list
	size  int
	since int64 // when the newest job was made that fell out, Unix nanoseconds; 0 where none did
}

// New returns a table of at most limit rows.
func New(limit int) *Table { return &Table{limit: limit, lists: map[listKey]*list{}} }

// Put takes an event from the log, and reports whether this one or an earlier one of its job is
// known. It keeps the event's ID without copying it.
func (x *Table) Put(n joblog.Notice) (known bool) { return x.put(n.Name, rowOf(n)) }

// Wrote takes an event by which this replica has just made or ended a job, before the event
// comes back from the log. It keeps the event's ID without copying it.
func (x *Table) Wrote(n joblog.Notice) { x.wrote(n.Name, rowOf(n)) }

// put takes an event, and reports whether it or an earlier one of its job is known.
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
		// An earlier event, perhaps of a job that this replica has ended.
	default:
		l.change(before, r)
	}
	return known
}

// wrote takes a job that this replica has just made or ended. Of one that was made, an event
// that was faster stays: it may be a later one.
func (x *Table) wrote(n subject.JobName, r Row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ended := task.TerminalWord(r.Status)
	l := x.list(n)
	before, found := l.rows.Get(r)
	switch {
	case !found && compareRows(r, l.cut) <= 0:
		if ended { // and not one that was made: an event that was faster may have ended it
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
		// A clone: the tenant is a part of a message's memory.
		x.lists[listKey{n.Kind, strings.Clone(n.Tenant)}] = l
	}
	return l
}

func (x *Table) insert(l *list, r Row) {
	l.count(l.recall(r), r.unfinished)
	l.rows.Set(r)
	if x.size++; x.size > x.limit {
		x.evict()
	}
}

// evict drops a hundredth of the rows, at least one: the oldest ones of the longest lists, so
// that one busy tenant does not push the others out. It looks at all lists, once for every
// hundredth. Where there are more tenants than rows, some of them keep none.
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

// longest is how long lists may stay, so that at least n rows are dropped.
func (x *Table) longest(n int) int {
	lengths := make([]int, 0, len(x.lists))
	for _, l := range x.lists {
		if n := l.rows.Len(); n > 0 { // not those that only count what fell out
			lengths = append(lengths, n)
		}
	}
	slices.Sort(lengths)
	slices.Reverse(lengths)
	sum := 0
	for i, most := range lengths {
		sum += most
		next := 0
		if i+1 < len(lengths) {
			next = lengths[i+1]
		}
		// The i+1 longest lists, cut to the length of the next one, lose this many.
		if sum-(i+1)*next >= n {
			return (sum - n) / (i + 1)
		}
	}
	return 0
}

// Expire drops the jobs whose last event the log has no more, because of its age.
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

// Erase takes a job out of what is looked for, unless a later event of it was heard than the
// row has that is given. A row stays, so that events of the job that come late do not bring it
// back.
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

// Forget drops a job that the log no longer has, unless a later event of it was heard than
// the row has that was judged.
func (x *Table) Forget(n subject.JobName, r Row) {
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

// drop forgets a list that has nothing in it any more: every publisher can make up
// tenants.
func (x *Table) drop(key listKey) {
	if l := x.lists[key]; l != nil && l.isEmpty() { // an insertion may have evicted it
		delete(x.lists, key)
	}
}

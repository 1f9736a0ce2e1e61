package jobindex

import (
	"slices"
	"strings"
	"sync"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// table knows the newest jobs of each tenant and kind, and those that have not ended. It is
// bounded: the oldest jobs fall out of it (not out of the log), first those that have ended.
type table struct {
	limit int

	mu    sync.RWMutex
	lists map[listKey]*list
	size  int
	since int64 // when the newest job was made that fell out, Unix nanoseconds; 0 where none did
}

func newTable(limit int) *table { return &table{limit: limit, lists: map[listKey]*list{}} }

// put takes an event, and reports whether it or an earlier one of its job is known.
func (x *table) put(n subject.TaskName, r row) (known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	before, found := l.rows.Get(r)
	known = found && before.seq <= r.seq
	switch {
	case !found && l.fellOut(r):
		_, known = l.evicted[r.id]
		l.recount(r)
		x.drop(listKey{n.Kind, n.Tenant})
	case !found:
		x.insert(l, r)
	case r.seq < before.seq, before.erased && r.seq == before.seq, task.TerminalWord(before.status) && !task.TerminalWord(r.status):
		// An earlier event, perhaps of a job that this replica has ended.
	default:
		l.change(before, r)
	}
	return known
}

func (x *table) list(n subject.TaskName) *list {
	l := x.lists[listKey{n.Kind, n.Tenant}]
	if l == nil {
		l = newList()
		// A clone: the tenant is a part of a message's memory.
		x.lists[listKey{n.Kind, strings.Clone(n.Tenant)}] = l
	}
	return l
}

func (x *table) insert(l *list, r row) {
	l.count(l.recall(r), r.unfinished)
	l.rows.Set(r)
	if x.size++; x.size > x.limit {
		x.evict()
	}
}

// evict drops a hundredth of the rows, at least one: the oldest ones of the longest lists, so
// that one busy tenant does not push the others out. It looks at all lists, once for every
// hundredth. Where there are more tenants than rows, some of them keep none.
func (x *table) evict() {
	n := max(x.limit/100, 1)
	longest := x.longest(n)
	for key, l := range x.lists {
		if n <= 0 {
			return
		}
		if cut := min(l.rows.Len()-longest, n); cut > 0 {
			l.drop(cut)
			if l.cut.created > x.since {
				x.since = l.cut.created
			}
			x.size -= cut
			n -= cut
			x.drop(key)
		}
	}
}

// longest is how long lists may stay, so that at least n rows are dropped.
func (x *table) longest(n int) int {
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

// expire drops the jobs whose last event the log has no more, because of its age.
func (x *table) expire(first uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, l := range x.lists {
		var old []row
		l.rows.Scan(func(r row) bool {
			if r.seq < first {
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
				l.lose(row{id: id, created: known.created, seq: known.seq})
			}
		}
		x.drop(key)
	}
}

// erase takes a job out of what is looked for, unless a later event of it was heard than the
// row has that is given. A row stays, so that events of the job that come late do not bring it
// back.
func (x *table) erase(n subject.TaskName, r row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	l.lose(r)
	r.unfinished, r.facts = false, facts{erased: true}
	switch before, found := l.rows.Get(r); {
	case !found:
		x.insert(l, r)
	case before.seq <= r.seq:
		r.status = before.status
		l.change(before, r)
	}
	x.drop(listKey{n.Kind, n.Tenant})
}

// forget drops a job that the log no longer has, unless a later event of it was heard than
// the row has that was judged.
func (x *table) forget(n subject.TaskName, r row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.lists[listKey{n.Kind, n.Tenant}]
	if l == nil {
		return
	}
	if known, found := l.rows.Get(r); found && known.seq <= r.seq {
		l.remove(known)
		x.size--
	} else if !found {
		l.lose(r)
	}
	x.drop(listKey{n.Kind, n.Tenant})
}

// drop forgets a list that has nothing in it any more: every publisher can make up
// tenants.
func (x *table) drop(key listKey) {
	if l := x.lists[key]; l != nil && l.isEmpty() { // an insertion may have evicted it
		delete(x.lists, key)
	}
}

// window says which rows of a list are wanted: N of those that match, strictly after one
// row (the zero row sorts before all), and after Skip more.
type window struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// Status is empty for all. From is inclusive and Before exclusive.
	Status string `json:"status,omitempty"`
	From   int64  `json:"from,omitempty"` // Unix nanoseconds
	Before int64  `json:"before"`
	// AfterCreated and AfterID are the row that the rows begin after; AfterJob is a job whose
	// row it is.
	AfterCreated int64  `json:"after_created,omitempty"`
	AfterID      string `json:"after_id,omitempty"`
	AfterJob     string `json:"after_job,omitempty"`
	Skip         int    `json:"skip,omitempty"`
	N            int    `json:"n"`
	Ascending    bool   `json:"ascending,omitempty"`
}

func (w *window) after(r row) { w.AfterCreated, w.AfterID, w.AfterJob = r.created, r.id, "" }

func (w *window) match(r row) bool {
	return (w.Status == "" || r.status == w.Status) && r.created >= w.From && r.created < w.Before
}

// page gives the rows of a window, newest first (or oldest first); false where it has no row
// of AfterJob.
func (x *table) page(w window) (out []row, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l := x.lists[listKey{w.Kind, w.Tenant}]
	if l == nil {
		return nil, w.AfterJob == ""
	}
	if w.AfterJob != "" {
		r, ok := l.find(w.AfterJob)
		if !ok {
			return nil, false
		}
		w.after(r)
	}
	after := row{created: w.AfterCreated, id: w.AfterID}
	look := func(r row) bool {
		switch {
		case w.AfterID != "" && compareRows(r, after) == 0, !w.match(r):
		case w.Skip > 0:
			w.Skip--
		default:
			out = append(out, r)
		}
		return len(out) < w.N
	}
	switch {
	case w.Ascending:
		l.rows.Ascend(after, look)
	case w.AfterID != "":
		l.rows.Descend(after, look)
	default:
		l.rows.Reverse(look)
	}
	return out, true
}

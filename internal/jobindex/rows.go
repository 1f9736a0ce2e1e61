package jobindex

import (
	"strings"
	"unique"

	"github.com/tidwall/btree"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

type listKey struct {
	kind   subject.Kind
	tenant string
}

// list is the jobs of one kind and tenant.
type list struct {
	rows *btree.BTreeG[row] // by (created, id); when the log is read they come in any order
	// cut is the newest row that fell out. Jobs before it that have ended are not taken in
	// again: after it the rows have no gaps, and before it they are of jobs that had not ended.
	cut row
	// unfinished counts the jobs that have not ended, those included that fell out of
	// the rows: evicted has them by their ids.
	unfinished int
	evicted    map[string]evictedJob
}

type row struct {
	created    int64 // Unix nanoseconds
	id         string
	status     string
	seq        uint64 // of the latest event that is known
	unfinished bool   // it counts as a job that has not ended
	facts
}

// evictedJob is what is known of an unfinished job whose row fell out.
type evictedJob struct {
	created int64
	seq     uint64 // of its latest event
}

// facts are what jobs are looked for by, in addition to the status.
type facts struct {
	updated int64 // when the latest event happened, Unix nanoseconds
	shared  unique.Handle[words]
	task    string // the upstream's id
	labels  publisher.Labels
	erased  bool // the job is found no more; its row is one that a list may still begin after
}

// words are those facts that many jobs have in common.
type words struct{ phase, route, model, upstream, key, code string }

func factsOf(n joblog.Notice) facts {
	f := n.Facts
	return facts{
		updated: n.Time.UnixNano(), task: strings.Clone(f.UpstreamTask), labels: publisher.Labels(strings.Clone(string(f.Labels))),
		shared: unique.Make(words{f.Phase, f.Route, f.Model, f.Upstream, f.Key, f.ErrorCode}),
	}
}

func (f facts) words() words {
	if f.shared == (unique.Handle[words]{}) {
		return words{}
	}
	return f.shared.Value()
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

func newList() *list {
	return &list{rows: btree.NewBTreeGOptions(func(a, b row) bool { return compareRows(a, b) < 0 }, btree.Options{NoLocks: true})}
}

func (l *list) isEmpty() bool { return l.rows.Len() == 0 && len(l.evicted) == 0 }

// find gives the row of a job, the newest where the id was used again.
func (l *list) find(id string) (found row, ok bool) {
	l.rows.Reverse(func(r row) bool {
		if ok = r.id == id; ok {
			found = r
		}
		return !ok
	})
	return found, ok
}

// change gives a row what a later event says.
func (l *list) change(before, r row) {
	l.count(before.unfinished, r.unfinished)
	r.id = before.id // the same, in the memory that is kept
	l.rows.Set(r)
}

// remove drops a row, whose job counts no more.
func (l *list) remove(r row) {
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
	var ended, others []row
	l.rows.Scan(func(r row) bool {
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
			l.cut = row{created: r.created, id: r.id}
		}
	}
}

// fellOut reports whether a job without a row has had one, as far as that is known: if it has
// ended, it is not taken in again.
func (l *list) fellOut(r row) bool {
	known, kept := l.evicted[r.id]
	return kept && known.created == r.created || compareRows(r, l.cut) <= 0 && !r.unfinished
}

// recount follows a job that fell out of the rows.
func (l *list) recount(r row) {
	if known, kept := l.evicted[r.id]; kept && known.created == r.created && r.seq < known.seq {
		return // an earlier event
	}
	l.count(l.recall(r), r.unfinished)
	l.keep(r)
}

// keep remembers a job whose row falls out of the index, if it has not ended: it goes on
// counting until it does.
func (l *list) keep(r row) {
	if !r.unfinished {
		return
	}
	if l.evicted == nil {
		l.evicted = map[string]evictedJob{}
	}
	l.evicted[r.id] = evictedJob{created: r.created, seq: r.seq}
}

// recall reports whether a job that re-enters the index is counted already.
func (l *list) recall(r row) bool {
	known, kept := l.evicted[r.id]
	if !kept || known.created != r.created {
		return false
	}
	delete(l.evicted, r.id)
	return true
}

// lose drops a job whose row fell out, unless a later event of it was heard than r has.
func (l *list) lose(r row) {
	if known, kept := l.evicted[r.id]; kept && known.created == r.created && known.seq <= r.seq {
		l.count(l.recall(r), false)
	}
}

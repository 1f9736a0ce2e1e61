package jobindex

import (
	"cmp"
	"maps"
	"slices"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// unfinishedOf is how many a tenant has of both kinds.
func (x *table) unfinishedOf(tenant string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 0
	for _, kind := range subject.Kinds {
		if of := x.lists[listKey{kind, tenant}]; of != nil {
			n += of.unfinished
		}
	}
	return n
}

// unfinishedByTenant are those of the n tenants that have the most, of both kinds, and of some
// others; total are those of all.
func (x *table) unfinishedByTenant(n int, also []string) (jobs map[string]int64, total int64) {
	x.mu.RLock()
	all := make(map[string]int64, len(x.lists))
	for key, l := range x.lists {
		if l.unfinished > 0 {
			all[key.tenant] += int64(l.unfinished)
			total += int64(l.unfinished)
		}
	}
	x.mu.RUnlock()
	largest := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	jobs = map[string]int64{}
	for _, tenant := range append(largest[:min(n, len(largest))], also...) {
		if all[tenant] > 0 {
			jobs[tenant] = all[tenant]
		}
	}
	return jobs, total
}

// isUnfinished judges the version of a job that an event has. An inline chat is no job that
// waits or is carried on: it ends with its connection, and where its replica dies no event
// says so. It alone begins in progress.
func isUnfinished(n joblog.Notice) bool {
	begunInline := n.Status == "in_progress" && n.Version == 1
	return !task.TerminalWord(n.Status) && !begunInline
}

// wrote takes a job that this replica has just made or ended. Of one that was made, an event
// that was faster stays: it may be a later one.
func (x *table) wrote(n subject.TaskName, r row) {
	x.mu.Lock()
	defer x.mu.Unlock()
	ended := task.TerminalWord(r.status)
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
	case ended && (!before.erased || r.seq > before.seq):
		l.change(before, r)
	}
}

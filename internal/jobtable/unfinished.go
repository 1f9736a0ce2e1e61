package jobtable

import (
	"cmp"
	"maps"
	"slices"

	"github.com/genbus/genbus/internal/subject"
)

// Unfinished returns the number of a tenant's unfinished jobs of all kinds.
func (x *Table) Unfinished(tenant string) int {
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

// UnfinishedByTenant returns the numbers of unfinished jobs of the n tenants that have the most and
// of the tenants in also. It omits tenants without unfinished jobs. total is the number for all
// tenants.
func (x *Table) UnfinishedByTenant(n int, also []string) (jobs map[string]int64, total int64) {
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

package jobtable

import (
	"cmp"
	"slices"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// lately is the period in which TenantJobs counts accepted and ended jobs.
const lately = time.Hour

// collector gathers a page of matching jobs and one extra job, which shows whether another page
// follows.
type collector struct {
	search Search
	labels []publisher.Label
	// requested is the ID in the current list of the job whose request ID is Find. prefix is Find
	// if it is the beginning of a job ID.
	requested, prefix string
	found             Found
	counts            []statusCount

	now     int64
	tenants map[string]*TenantJobs
}

type statusCount struct {
	status string
	n      int
}

func (c *collector) look(key listKey, r *Row) {
	if !c.matchesID(r) || !c.search.matches(r) || !c.matchesLabels(r) {
		return
	}
	c.count(r.Status)
	if !c.search.wantsStatus(r.Status) {
		return
	}
	if c.search.ByTenant {
		c.countFor(key.tenant, r)
		return
	}
	p := place{Created: r.Created, Kind: key.kind, Tenant: key.tenant, ID: r.ID}
	if c.search.After != (place{}) && c.compare(p, c.search.After) <= 0 {
		return
	}
	jobs := c.found.Jobs
	if len(jobs) > c.search.Size && c.compare(p, jobs[c.search.Size].place) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(jobs, p, func(f FoundJob, p place) int { return c.compare(f.place, p) })
	if len(jobs) > c.search.Size {
		jobs = jobs[:c.search.Size]
	}
	c.found.Jobs = slices.Insert(jobs, at, foundJob(p, r))
}

// enter prepares for the rows of a list.
func (c *collector) enter(key listKey) {
	if c.search.Find != "" {
		c.requested = subject.JobID(key.kind, key.tenant, subject.RequestSource(c.search.Find))
	}
}

// matchesID reports whether a row fits IDs and Find.
func (c *collector) matchesID(r *Row) bool {
	ids := c.search.IDs
	return len(ids) == 0 || slices.Contains(ids, r.ID) || r.task != "" && slices.Contains(ids, r.task) ||
		r.ID == c.requested || c.prefix != "" && strings.HasPrefix(r.ID, c.prefix)
}

// count counts a job by its status word. The words are few, so a list is faster than a map.
func (c *collector) count(status string) {
	at := slices.IndexFunc(c.counts, func(s statusCount) bool { return s.status == status })
	if at < 0 {
		at, c.counts = len(c.counts), append(c.counts, statusCount{status: status})
	}
	c.counts[at].n++
}

// addCounts adds the counts by status to the result.
func (c *collector) addCounts() {
	c.found.ByStatus = make(map[string]int, len(c.counts))
	for _, s := range c.counts {
		c.found.ByStatus[s.status] = s.n
		if c.search.wantsStatus(s.status) {
			c.found.Total += s.n
		}
	}
}

// matchesLabels reports whether a row has all wanted labels. If a wanted label is missing from a
// row whose labels were cut off, it counts the row in found.Maybe and reports false.
func (c *collector) matchesLabels(r *Row) bool {
	for _, l := range c.labels {
		has, sure := r.labels.Has(l)
		if !sure {
			c.found.Maybe++
		}
		if !has {
			return false
		}
	}
	return true
}

func (c *collector) countFor(tenant string, r *Row) {
	t := c.tenants[tenant]
	if t == nil {
		if c.tenants == nil {
			c.tenants = map[string]*TenantJobs{}
		}
		t = &TenantJobs{Tenant: tenant}
		c.tenants[tenant] = t
	}
	since := c.now - int64(lately)
	if r.Created >= since {
		t.Accepted++
	}
	switch ended := task.TerminalWord(r.Status); {
	case !ended:
		t.Unfinished++
		if r.Status == task.StatusWord(genbusv1.JobStatus_JOB_STATUS_QUEUED) {
			t.Waiting++
		}
		if t.Oldest == 0 || r.Created < t.Oldest {
			t.Oldest = r.Created
		}
	case r.updated >= since:
		t.Ended++
		if r.Status == task.StatusWord(genbusv1.JobStatus_JOB_STATUS_FAILED) {
			t.Failed++
		}
	}
}

// rankTenants keeps the tenants with the most unfinished jobs. Ties go to the busier tenant.
func (c *collector) rankTenants() {
	all := make([]TenantJobs, 0, len(c.tenants))
	for _, t := range c.tenants {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b TenantJobs) int {
		return cmp.Or(cmp.Compare(b.Unfinished, a.Unfinished), cmp.Compare(b.Accepted+b.Ended, a.Accepted+a.Ended), strings.Compare(a.Tenant, b.Tenant))
	})
	c.found.Total = len(all)
	c.found.Tenants = all[:min(len(all), c.search.Size)]
}

func (c *collector) compare(a, b place) int {
	if c.search.Oldest {
		return a.compare(b)
	}
	return b.compare(a)
}

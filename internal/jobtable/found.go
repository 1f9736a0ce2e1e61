package jobtable

import (
	"cmp"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// TenantJobs counts a tenant's jobs that have a row in the table.
type TenantJobs struct {
	Tenant string `json:"tenant"`
	// Unfinished counts jobs that have not ended, and Waiting the queued ones among them. Oldest is
	// the acceptance time of the oldest unfinished job in Unix nanoseconds, or 0 if there is none.
	Unfinished int   `json:"unfinished,omitempty"`
	Waiting    int   `json:"waiting,omitempty"`
	Oldest     int64 `json:"oldest,omitempty"`
	// Accepted and Ended count jobs accepted and ended within the last hour. Failed counts the
	// ended jobs that failed.
	Accepted int `json:"accepted,omitempty"`
	Ended    int `json:"ended,omitempty"`
	Failed   int `json:"failed,omitempty"`
}

// place identifies the job after which a page begins.
type place struct {
	Created int64        `json:"created"`
	Kind    subject.Kind `json:"kind"`
	Tenant  string       `json:"tenant"`
	ID      string       `json:"id"`
}

func (p place) compare(q place) int {
	if c := cmp.Compare(p.Created, q.Created); c != 0 { // times are nearly always distinct
		return c
	}
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), strings.Compare(p.Tenant, q.Tenant), strings.Compare(p.ID, q.ID))
}

// FoundJob describes a job as the index lists it.
type FoundJob struct {
	place
	Status  string `json:"status"`
	Updated int64  `json:"updated"` // time of the latest event, Unix nanoseconds

	Phase        string           `json:"phase,omitempty"`
	Route        string           `json:"route,omitempty"`
	Model        string           `json:"model,omitempty"`
	Upstream     string           `json:"upstream,omitempty"`
	Key          string           `json:"key,omitempty"`
	ErrorCode    string           `json:"error_code,omitempty"`
	UpstreamTask string           `json:"task,omitempty"`
	Progress     int              `json:"progress,omitempty"` // of a video, percent
	Labels       publisher.Labels `json:"labels,omitempty"`
}

// CreatedAt returns the time at which the job was accepted.
func (f FoundJob) CreatedAt() time.Time { return time.Unix(0, f.Created) }

// UpdatedAt returns the time of the job's latest event.
func (f FoundJob) UpdatedAt() time.Time { return time.Unix(0, f.Updated) }

// Found is a page of search results.
type Found struct {
	Jobs []FoundJob `json:"jobs"`
	// Total is the number of matching jobs on all pages. If Maybe is not zero, Total is a minimum.
	// The index lacks some labels of as many more jobs as Maybe counts, of any status, and these
	// jobs may match too.
	Total int `json:"total"`
	Maybe int `json:"maybe,omitempty"`
	// ByStatus counts the jobs of each status word that match the filter without its Status. Maybe
	// applies to these jobs too. It is nil if a replica of an older version answered.
	ByStatus map[string]int `json:"by_status,omitempty"`
	// Since is the creation time of the newest evicted job in Unix nanoseconds, or 0. The index has
	// every job created later.
	Since int64 `json:"since,omitempty"`
	// AsOf is a time in Unix nanoseconds. The answer includes everything that was in the log at
	// that time.
	AsOf int64 `json:"as_of"`
	// More reports whether another page follows. NextToken is that page's token.
	More      bool   `json:"more,omitempty"`
	NextToken string `json:"-"`
	// Tenants is set instead of Jobs if the search is ByTenant. Total then counts tenants.
	Tenants []TenantJobs `json:"tenants,omitempty"`
}

func foundJob(p place, r *Row) FoundJob {
	w := r.words()
	return FoundJob{
		place: p, Status: r.Status, Updated: r.updated,
		Phase: w.phase, Route: w.route, Model: w.model, Upstream: w.upstream, Key: w.key, ErrorCode: w.code, UpstreamTask: r.task, Progress: int(r.progress), Labels: r.labels,
	}
}

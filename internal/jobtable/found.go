package jobtable

import (
	"cmp"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// TenantJobs are the jobs of a tenant, as far as the index lists them.
type TenantJobs struct {
	Tenant string `json:"tenant"`
	// Unfinished are those that have not ended, and Waiting those of them that are queued.
	// Oldest is when the first of the unfinished was made, Unix nanoseconds; 0 where there is none.
	Unfinished int   `json:"unfinished,omitempty"`
	Waiting    int   `json:"waiting,omitempty"`
	Oldest     int64 `json:"oldest,omitempty"`
	// Accepted began within the last hour; Ended ended in it, and Failed are those of them that
	// failed.
	Accepted int `json:"accepted,omitempty"`
	Ended    int `json:"ended,omitempty"`
	Failed   int `json:"failed,omitempty"`
}

// place is where a page begins: after this job.
type place struct {
	Created int64        `json:"created"`
	Kind    subject.Kind `json:"kind"`
	Tenant  string       `json:"tenant"`
	ID      string       `json:"id"`
}

func (p place) compare(q place) int {
	if c := cmp.Compare(p.Created, q.Created); c != 0 { // nearly always
		return c
	}
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), strings.Compare(p.Tenant, q.Tenant), strings.Compare(p.ID, q.ID))
}

// FoundJob is what the index knows of a job.
type FoundJob struct {
	place
	Status  string `json:"status"`
	Updated int64  `json:"updated"` // when its latest event happened, Unix nanoseconds

	Phase        string           `json:"phase,omitempty"`
	Route        string           `json:"route,omitempty"`
	Model        string           `json:"model,omitempty"`
	Upstream     string           `json:"upstream,omitempty"`
	Key          string           `json:"key,omitempty"`
	ErrorCode    string           `json:"error_code,omitempty"`
	UpstreamTask string           `json:"task,omitempty"`
	Labels       publisher.Labels `json:"labels,omitempty"`
}

// CreatedAt is when the job was accepted.
func (f FoundJob) CreatedAt() time.Time { return time.Unix(0, f.Created) }

// UpdatedAt is when its latest event happened.
func (f FoundJob) UpdatedAt() time.Time { return time.Unix(0, f.Updated) }

// Found is a page of what was looked for.
type Found struct {
	Jobs []FoundJob `json:"jobs"`
	// Total is how many jobs match, on all pages. It is a least number where Maybe is not zero:
	// that many may match, as the index does not know all of their labels.
	Total int `json:"total"`
	Maybe int `json:"maybe,omitempty"`
	// Since is when the newest job was made that fell out of the index, Unix nanoseconds; 0 where
	// none did. Of those that were made later none is missing.
	Since int64 `json:"since,omitempty"`
	// AsOf is when the log had no more than is in this answer, Unix nanoseconds.
	AsOf int64 `json:"as_of"`
	// More is whether there is another page, and NextToken its token.
	More      bool   `json:"more,omitempty"`
	NextToken string `json:"-"`
	// Tenants is what ByTenant asks for. Total is then how many tenants there are.
	Tenants []TenantJobs `json:"tenants,omitempty"`
}

func foundJob(p place, r *Row) FoundJob {
	w := r.words()
	return FoundJob{
		place: p, Status: r.Status, Updated: r.updated,
		Phase: w.phase, Route: w.route, Model: w.model, Upstream: w.upstream, Key: w.key, ErrorCode: w.code, UpstreamTask: r.task, Labels: r.labels,
	}
}

package jobindex

import (
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// question is a request to a replica that keeps the index. It has one part besides Upto.
type question struct {
	// Upto is the event that the answer must include, or 0.
	Upto uint64 `json:"upto,omitempty"`

	List   *jobtable.Window `json:"list,omitempty"`
	Tenant string           `json:"tenant,omitempty"` // counts its unfinished jobs
	Gone   *gone            `json:"gone,omitempty"`   // a job that the log does not have; gets no answer
	Search *jobtable.Search `json:"search,omitempty"`
	Rates  bool             `json:"rates,omitempty"` // recent rates
	// Largest is how many of the tenants with the most unfinished jobs to count, in addition to
	// Tenants.
	Largest int      `json:"largest,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
}

type answer struct {
	// Error gives the reason for a missing answer, or is empty.
	Error   string `json:"error,omitempty"`
	replica string // the replica that was asked
	// AsOf is the last event in the keeper's index.
	AsOf uint64 `json:"as_of"`

	Rows   []jobtable.Row   `json:"rows,omitempty"`
	NoRow  bool             `json:"no_row,omitempty"` // the index has no row of the job after which the list begins
	Jobs   int              `json:"jobs,omitempty"`
	Found  *jobtable.Found  `json:"found,omitempty"`
	Rates  *jobtable.Rates  `json:"rates,omitempty"`
	ByName map[string]int64 `json:"by_name,omitempty"` // unfinished jobs by tenant
	InAll  int64            `json:"in_all,omitempty"`  // unfinished jobs of all tenants
}

// Values of answer.Error.
const (
	notReady = "not_ready"
	badlyPut = "bad_question" // invalid, or from a replica of another version
	tooMany  = "too_many"     // concurrent searches
)

// gone is a row to remove.
type gone struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// Erased keeps the row as a place after which a list can resume.
	Erased bool `json:"erased,omitempty"`
	jobtable.Row
}

func (g gone) from(t *jobtable.Table) {
	n := subject.JobName{Kind: g.Kind, Tenant: g.Tenant, ID: g.ID}
	if g.Erased {
		t.Erase(n, g.Row)
		return
	}
	t.Forget(n, g.Row)
}

package jobindex

import (
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// question is what a replica asks one that keeps the index: one of its parts.
type question struct {
	// Upto is an event that the answer is to know of; 0 for none.
	Upto uint64 `json:"upto,omitempty"`

	List   *jobtable.Window `json:"list,omitempty"`
	Tenant string           `json:"tenant,omitempty"` // how many unfinished jobs it has
	Gone   *gone            `json:"gone,omitempty"`   // a job that the log does not have; it has no answer
	Search *jobtable.Search `json:"search,omitempty"`
	Rates  bool             `json:"rates,omitempty"` // what happened lately
	// Largest is how many of the tenants with the most unfinished jobs are wanted, with those
	// of Tenants.
	Largest int      `json:"largest,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
}

// answer is one to a question.
type answer struct {
	// Error is empty, or why there is no answer.
	Error   string `json:"error,omitempty"`
	replica string // that was asked
	// AsOf is the last event that the keeper has heard of.
	AsOf uint64 `json:"as_of"`

	Rows   []jobtable.Row   `json:"rows,omitempty"`
	NoRow  bool             `json:"no_row,omitempty"` // the job is unknown that the list is to begin after
	Jobs   int              `json:"jobs,omitempty"`
	Found  *jobtable.Found  `json:"found,omitempty"`
	Rates  *jobtable.Rates  `json:"rates,omitempty"`
	ByName map[string]int64 `json:"by_name,omitempty"` // unfinished jobs of tenants
	InAll  int64            `json:"in_all,omitempty"`  // and of all of them
}

// Errors of an answer.
const (
	notReady = "not_ready"
	badlyPut = "bad_question" // by a replica of another version
	tooMany  = "too_many"     // searches at a time
)

// gone is a row that is to be forgotten.
type gone struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// Erased leaves a row behind, as one that a list may begin after.
	Erased bool `json:"erased,omitempty"`
	jobtable.Row
}

// from takes the job out of a table.
func (g gone) from(t *jobtable.Table) {
	n := subject.JobName{Kind: g.Kind, Tenant: g.Tenant, ID: g.ID}
	if g.Erased {
		t.Erase(n, g.Row)
		return
	}
	t.Forget(n, g.Row)
}

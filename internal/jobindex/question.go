package jobindex

import (
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// question is a request to a replica that keeps the index. Apart from Upto, only the fields of one
// kind of question are set.
type question struct {
	// Upto is the sequence of the event that the answer must include, or 0.
	Upto uint64 `json:"upto,omitempty"`

	List   *jobtable.Window `json:"list,omitempty"`
	Tenant string           `json:"tenant,omitempty"` // counts its unfinished jobs
	Remove *removal         `json:"gone,omitempty"`   // a job that the log does not have; gets no answer
	Search *jobtable.Search `json:"search,omitempty"`
	Rates  bool             `json:"rates,omitempty"` // recent rates
	// Replaced is a job whose replacements are wanted.
	Replaced *jobtable.Replaced `json:"replaced,omitempty"`
	// Largest is the number of tenants whose unfinished jobs are counted, starting with the tenant
	// that has the most. The tenants in Tenants are counted in addition.
	Largest int      `json:"largest,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
}

type answer struct {
	// Error is the reason why there is no answer, or empty.
	Error   string `json:"error,omitempty"`
	replica string // the replica that was asked
	// AsOf is the sequence of the last event in the keeper's index.
	AsOf uint64 `json:"as_of"`

	Rows   []jobtable.Row   `json:"rows,omitempty"`
	NoRow  bool             `json:"no_row,omitempty"` // the index has no row for the job after which the list begins
	Jobs   int              `json:"jobs,omitempty"`
	Found  *jobtable.Found  `json:"found,omitempty"`
	Rates  *jobtable.Rates  `json:"rates,omitempty"`
	ByName map[string]int64 `json:"by_name,omitempty"` // unfinished jobs by tenant
	InAll  int64            `json:"in_all,omitempty"`  // unfinished jobs of all tenants
	IDs    []string         `json:"ids,omitempty"`     // IDs of replacements
}

// Values of answer.Error.
const (
	notReady    = "not_ready"
	badQuestion = "bad_question" // the question is invalid or comes from a replica of another version
	tooMany     = "too_many"     // too many concurrent searches
)

// removal tells replicas to remove a row.
type removal struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// Erased hides the row instead, so that lists can still resume after it.
	Erased bool `json:"erased,omitempty"`
	jobtable.Row
}

func (g removal) applyTo(t *jobtable.Table) {
	n := subject.JobName{Kind: g.Kind, Tenant: g.Tenant, ID: g.ID}
	if g.Erased {
		t.Erase(n, g.Row)
		return
	}
	t.Remove(n, g.Row)
}

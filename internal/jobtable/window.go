package jobtable

import (
	"slices"

	"github.com/genbus/genbus/internal/subject"
)

// Window selects up to N matching rows of a list. It begins strictly after a given row and skips
// Skip matching rows. The zero row sorts before all others.
type Window struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// An empty Status matches every job. From is inclusive, and Before is exclusive.
	Status string `json:"status,omitempty"`
	From   int64  `json:"from,omitempty"` // Unix nanoseconds
	Before int64  `json:"before"`
	// AfterCreated and AfterID identify the row after which the window begins. AfterJob identifies
	// that row by its job ID instead.
	AfterCreated int64  `json:"after_created,omitempty"`
	AfterID      string `json:"after_id,omitempty"`
	AfterJob     string `json:"after_job,omitempty"`
	Skip         int    `json:"skip,omitempty"`
	N            int    `json:"n"`
	Ascending    bool   `json:"ascending,omitempty"`
}

// After begins the window after a row.
func (w *Window) After(r Row) { w.AfterCreated, w.AfterID, w.AfterJob = r.Created, r.ID, "" }

// Token returns the page token of the row after which the window begins.
func (w *Window) Token() string { return formatToken(Row{Created: w.AfterCreated, ID: w.AfterID}) }

func (w *Window) match(r Row) bool {
	return (w.Status == "" || r.Status == w.Status) && r.Created >= w.From && r.Created < w.Before
}

// Page returns the rows of a window in its order. found is false if the table has no row for
// AfterJob.
func (x *Table) Page(w Window) (out []Row, found bool) {
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
		w.After(r)
	}
	after := Row{Created: w.AfterCreated, ID: w.AfterID}
	look := func(r Row) bool {
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

// Legal reports whether a window received from another replica is valid.
func (w Window) Legal() bool {
	return slices.Contains(subject.Kinds, w.Kind) && w.N > 0 && w.N <= MaxPage+1 && w.Skip >= 0
}

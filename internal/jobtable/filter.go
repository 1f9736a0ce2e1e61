package jobtable

import (
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Filter selects jobs of all tenants. Empty fields match every job. A job must match all other
// fields.
type Filter struct {
	Kind   subject.Kind `json:"kind,omitempty"`
	Tenant string       `json:"tenant,omitempty"`
	// Status is a status word or Unfinished. Phase is a phase word.
	Status string `json:"status,omitempty"`
	Phase  string `json:"phase,omitempty"`

	Route     string `json:"route,omitempty"`
	Model     string `json:"model,omitempty"`
	Upstream  string `json:"upstream,omitempty"`
	Key       string `json:"key,omitempty"` // name of the upstream key
	ErrorCode string `json:"error_code,omitempty"`
	// Labels must all be present; the job may have more.
	Labels map[string]string `json:"labels,omitempty"`
	// IDs are job IDs or upstream task IDs. A job matches if it has one of them, or if Find is its
	// request ID or the beginning of its job ID. Without IDs, Find has no effect: keepers of an
	// earlier version know only IDs.
	IDs  []string `json:"ids,omitempty"`
	Find string   `json:"find,omitempty"`
	// The From fields are inclusive, and the Before fields are exclusive. All are results of Bound.
	CreatedFrom   int64 `json:"created_from,omitempty"`
	CreatedBefore int64 `json:"created_before,omitempty"`
	UpdatedFrom   int64 `json:"updated_from,omitempty"`
	UpdatedBefore int64 `json:"updated_before,omitempty"`
}

// Unfinished is the Filter.Status of jobs that have not ended.
const Unfinished = "unfinished"

// matches reports whether a row fits every field except Kind, Tenant, Status, Labels, IDs and Find.
// Erased jobs never match.
func (f *Filter) matches(r *Row) bool {
	switch {
	case r.erased,
		f.CreatedFrom > 0 && r.Created < f.CreatedFrom, f.CreatedBefore > 0 && r.Created >= f.CreatedBefore,
		f.UpdatedFrom > 0 && r.updated < f.UpdatedFrom, f.UpdatedBefore > 0 && r.updated >= f.UpdatedBefore,
		!f.matchesWords(r):
		return false
	}
	return true
}

// wantsStatus reports whether jobs with a status word match.
func (f *Filter) wantsStatus(status string) bool {
	return f.Status == "" || f.Status == status || f.Status == Unfinished && !task.TerminalWord(status)
}

func (f *Filter) matchesWords(r *Row) bool {
	if f.Phase+f.Route+f.Model+f.Upstream+f.Key+f.ErrorCode == "" {
		return true
	}
	w := r.words()
	return wanted(f.Phase, w.phase) && wanted(f.Route, w.route) && wanted(f.Model, w.model) &&
		wanted(f.Upstream, w.upstream) && wanted(f.Key, w.key) && wanted(f.ErrorCode, w.code)
}

func wanted(want, is string) bool { return want == "" || want == is }

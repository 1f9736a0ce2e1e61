package jobtable

import (
	"cmp"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Query selects jobs of one tenant.
type Query struct {
	Kind   subject.Kind
	Tenant string
	// Status is the status to match. UNSPECIFIED matches every job.
	Status genbusv1.JobStatus
	// CreatedFrom is inclusive, and CreatedBefore is exclusive. Both are results of Bound.
	CreatedFrom, CreatedBefore int64
	// Size is the page size. Zero means DefaultPage, and values above MaxPage mean MaxPage.
	Size int
	// Token is the NextToken of the previous page, or empty.
	Token string
	// After is the ID of the job after which the page begins. It is ignored if Token is set. If
	// both are empty, the page begins at the start of the list.
	After string
	// Offset is the number of jobs to skip. Skipped jobs are not read from the log, so they may
	// include erased jobs that the index still has.
	Offset int
	// Ascending lists the oldest jobs first.
	Ascending bool
}

// Bound converts a timestamp to Unix nanoseconds. For nil, it returns 0, which means no bound. For
// times up to 1970, it returns 1. For times that do not fit into an int64, it returns
// math.MaxInt64.
func Bound(t *timestamppb.Timestamp) int64 {
	const most = math.MaxInt64 / int64(time.Second) // in the year 2262
	switch {
	case t == nil:
		return 0
	case t.GetSeconds() <= 0:
		return 1
	case t.GetSeconds() >= most:
		return math.MaxInt64
	}
	return t.AsTime().UnixNano()
}

// Window returns the window of the page. It returns ErrPageToken for an invalid token.
func (q Query) Window() (Window, error) {
	w := Window{Kind: q.Kind, Tenant: q.Tenant, From: q.CreatedFrom, Before: cmp.Or(q.CreatedBefore, math.MaxInt64), Skip: max(q.Offset, 0), Ascending: q.Ascending}
	if q.Status != 0 {
		w.Status = task.StatusWord(q.Status)
	}
	if q.Token == "" && q.After != "" {
		w.AfterJob = q.After
		return w, nil
	}
	after, err := parseToken(q.Token)
	w.After(after)
	return w, err
}

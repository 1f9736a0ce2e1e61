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
	// Status UNSPECIFIED matches every job.
	Status genbusv1.JobStatus
	// CreatedFrom is inclusive and CreatedBefore exclusive. Each is a Bound.
	CreatedFrom, CreatedBefore int64
	// Size ranges from 1 to MaxPage; 0 means DefaultPage, and larger values mean MaxPage.
	Size int
	// Token is the NextToken of the previous page, or empty.
	Token string
	// After is the id of the job after which the page begins, if Token is empty. Empty means the
	// beginning of the list.
	After string
	// Offset is the number of jobs to skip. Skipped jobs are not read from the log, so the offset
	// includes erased jobs that the list still has.
	Offset int
	// Ascending lists the oldest jobs first.
	Ascending bool
}

// Bound converts a timestamp to Unix nanoseconds; nil becomes 0, no bound. Times up to 1970 become
// 1, and times that int64 cannot hold become math.MaxInt64.
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

// Window returns the window at which the page begins, or ErrPageToken.
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

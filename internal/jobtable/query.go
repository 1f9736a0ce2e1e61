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

// Query chooses jobs of one tenant.
type Query struct {
	Kind   subject.Kind
	Tenant string
	// Status is UNSPECIFIED for all.
	Status genbusv1.JobStatus
	// CreatedFrom is inclusive and CreatedBefore exclusive, each of them a Bound.
	CreatedFrom, CreatedBefore int64
	// Size is 1 to MaxPage; 0 is DefaultPage, more is MaxPage.
	Size int
	// Token is the NextToken of the page before, or empty.
	Token string
	// After is the id of the job that the page begins after, where there is no
	// Token; empty for the list's begin.
	After string
	// Offset is how many jobs are passed over first. They are not read, so that
	// those count that were erased and that the list still knows.
	Offset int
	// Ascending lists the oldest first.
	Ascending bool
}

// Bound is a bound of time in Unix nanoseconds, 0 for none. What they cannot say becomes the
// first or the last moment that they can.
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

// Window returns the window that the page begins with, or ErrPageToken.
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

package hold

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// A step of a held job returns nil to continue, or an error that decides about the message: a
// *WaitError, a *ReturnError, or one of the errors below. Any other error is a failed step: the
// message is kept, and the log is reread after Retry.
var (
	// ErrEnded reports that the log has the job's terminal event. The job is finished next (its
	// feed copy is stored), and then the message is acknowledged.
	ErrEnded = errors.New("the job has ended")
	// ErrStale reports that no job needs the work item. It is acknowledged without further action.
	ErrStale = errors.New("the work item is stale")
	// ErrNotOurs reports that another replica has the job, or that it was erased. The message is
	// not settled: an ACK or a NAK would act on the message of its new holder.
	ErrNotOurs = errors.New("another replica has the job, or it was erased")
	// ErrShutdown is the cause of every context that ends because the process stops.
	ErrShutdown = errors.New("genbus is shutting down")
)

// WaitError keeps the message until the job's next step.
type WaitError struct{ Until time.Time }

func (e *WaitError) Error() string {
	return "the job waits until " + e.Until.Format(time.RFC3339)
}

// Until keeps the message until at.
func Until(at time.Time) error { return &WaitError{Until: at} }

// For keeps the message for d.
func For(d time.Duration) error { return Until(time.Now().Add(d)) }

// Waits reports whether an outcome keeps the message.
func Waits(outcome error) bool {
	_, waits := errors.AsType[*WaitError](outcome)
	return waits
}

// ReturnError returns the message to any replica, after a delay.
type ReturnError struct{ Delay time.Duration }

func (e *ReturnError) Error() string { return fmt.Sprintf("the message is returned after %s", e.Delay) }

// Return returns the message to another replica at once.
func Return() error { return &ReturnError{} }

// ReturnAfter returns the message to any replica, later. A delayed message still counts as pending,
// so this is for rare cases.
func ReturnAfter(d time.Duration) error { return &ReturnError{Delay: d} }

// FetchWait bounds one fetch. It is short because a stop waits for running fetches: an abandoned
// pull request stays at the server for a moment, and messages returned then would come back to this
// process.
const FetchWait = time.Second

// unjudged returns a job to another replica, because this one's clock is wrong. The delay outlives
// a running fetch, and no other follows it.
func unjudged() error { return ReturnAfter(2 * FetchWait) }

const (
	// Retry is the delay after a failed step.
	Retry = time.Second
	// CommitTimeout bounds one write, after which the step is retried.
	CommitTimeout = 30 * time.Second
	// CapacityRetry is the delay before a submission without log capacity is retried.
	CapacityRetry = 5 * time.Second
)

// staleCheck is a suspicion that needs two looks, joblog.SecondLook apart.
type staleCheck struct{ since time.Time }

// sure returns zero if the suspicion is confirmed, and otherwise the time of the next look.
func (c *staleCheck) sure(now time.Time) (again time.Time) {
	if c.since.IsZero() {
		c.since = now
	}
	if again = c.since.Add(joblog.SecondLook); now.Before(again) {
		return again
	}
	return time.Time{}
}

// Jittered varies d by up to the given part, either way.
func Jittered(d time.Duration, part float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*part*float64(d))
}

// Soon returns the next time to look at a job that waits for an upstream: with a minimum delay, and
// spread among jobs that wait for the same moment.
func Soon(at time.Time) time.Time {
	if least := time.Now().Add(Retry / 2); at.Before(least) {
		at = least
	}
	return at.Add(rand.N(Retry / 4))
}

// Earliest returns at, or the moment after the first limit that passes before it. A limit may be
// nil.
func Earliest(at time.Time, limits ...*timestamppb.Timestamp) time.Time {
	for _, limit := range limits {
		if limit != nil && limit.AsTime().Before(at) {
			at = limit.AsTime().Add(time.Millisecond)
		}
	}
	return at
}

// NotStarted returns which start deadline a job has missed, or nil if it was started or has time.
func NotStarted(job task.Job, now time.Time) *errcode.Error {
	if by, waits := task.StartBy(job); !waits || now.Before(by) {
		return nil
	}
	if at := job.GetExpiresAt(); at != nil && !now.Before(at.AsTime()) {
		return errcode.New(errcode.Expired, "job %s was not started before its expires_at", job.GetId())
	}
	return errcode.New(errcode.QueueTimeout, "job %s waited longer than the queue timeout of route %s", job.GetId(), job.GetExecution().GetRoute())
}

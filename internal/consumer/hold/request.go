package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// errDeadLetter reports that a job cannot end because its dead letter was not stored.
var errDeadLetter = errors.New("the dead letter could not be written")

// Request is a held job's work item with its body, and the dead letter that keeps both. It belongs
// to the goroutine that works on the job.
type Request struct {
	parts            *Options
	name             subject.JobName
	seq              uint64             // of the work item
	item             *genbusv1.WorkItem // nil once the upstream is known to have the task
	missed           staleCheck         // of the body
	deadLetterStored bool               // a dead letter of the job's end is stored
	lookUps          []*genbusv1.LookUp // of a task whose submission has an unknown outcome
	outcomeOf        uint32             // the attempt whose outcome this holder knows, or 0
}

// Item returns the work item, or nil after Release.
func (r *Request) Item() *genbusv1.WorkItem { return r.item }

// Owes reports whether the job's end requires a dead letter that is not stored yet, as far as this
// holder knows.
func (r *Request) Owes(job task.Job) bool {
	x := job.GetExecution()
	outcomeKnown := x.GetSubmissionOutcomeUnknown() && r.outcomeOf == x.GetAttempt()
	// The dead letter of a stale item would be another job's.
	own := r.item == nil || task.SameRequest(r.item, x)
	return own && !r.deadLetterStored && !outcomeKnown && task.LeavesDeadLetter(job)
}

// LookedUp keeps a look-up of the job's upstream task for the dead letter.
func (r *Request) LookedUp(l *genbusv1.LookUp) { r.lookUps = append(r.lookUps, l) }

// OutcomeKnown records that this holder knows an attempt's outcome: the upstream has no task for
// it, or a dead letter names the task.
func (r *Request) OutcomeKnown(attempt uint32) { r.outcomeOf = attempt }

// Release drops the work item, whose body may be large.
func (r *Request) Release() { r.item = nil }

// removed reports whether the work item was removed from its stream, as happens before an erasure.
func (r *Request) removed(ctx context.Context) (bool, error) {
	return r.parts.Queue.Items.Removed(ctx, r.seq)
}

// Body returns the body of the work item, which admission has validated. Only Body decides that an
// accepted request is lost: it fails with broker.ErrBodyLost if the body was missing twice,
// joblog.SecondLook apart.
func (r *Request) Body(ctx context.Context) (body.Document, error) {
	if r.item.GetBodyRef() == nil || len(r.item.GetBody()) > 0 {
		return body.Trusted(r.item.GetBody()), nil
	}
	data, err := r.parts.Bodies.Get(ctx, publisher.BodyOf(r.item.GetBodyRef()))
	if errors.Is(err, broker.ErrBodyLost) && !r.missed.sure(time.Now()).IsZero() {
		return body.Document{}, fmt.Errorf("not found at first, found later: %s", err.Error()) // not lost yet
	}
	return body.Trusted(data), err
}

// putDeadLetter stores the request as the dead letter of a job that ends with f.
func (r *Request) putDeadLetter(ctx context.Context, job task.Job, f *errcode.Error) error {
	return r.keep(ctx, job, func(item *genbusv1.WorkItem) error {
		return r.parts.DeadLetters.PutJob(ctx, item, job, f, r.lookUps...)
	})
}

// putLostDeadLetter stores the request of a job whose log was lost with its first event.
func (r *Request) putLostDeadLetter(ctx context.Context, f *errcode.Error) error {
	return r.keep(ctx, nil, func(item *genbusv1.WorkItem) error { return r.parts.DeadLetters.PutJob(ctx, item, nil, f) })
}

// putEndDeadLetter stores the dead letter that the end of a job requires. It stores none if another
// writer ended the job as unknown but this holder already knows the outcome.
func (r *Request) putEndDeadLetter(ctx context.Context, job task.Job) error {
	if !r.Owes(job) {
		return nil
	}
	return r.keep(ctx, job, func(item *genbusv1.WorkItem) error { return r.parts.DeadLetters.PutEnd(ctx, item, job, r.lookUps...) })
}

func (r *Request) keep(ctx context.Context, job task.Job, put func(*genbusv1.WorkItem) error) error {
	item, err := r.workItem(ctx, job)
	if err == nil {
		err = put(item)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDeadLetter, err)
	}
	r.deadLetterStored = true
	return nil
}

// workItem returns the job's work item. After Release it reads the item from the stream. If the
// stream was lost, it builds one from the log.
func (r *Request) workItem(ctx context.Context, job task.Job) (*genbusv1.WorkItem, error) {
	if r.item != nil {
		return r.item, nil
	}
	stored, err := r.parts.Queue.Items.All(ctx, r.name)
	if err != nil {
		return nil, fmt.Errorf("read the work item again: %w", err)
	}
	for _, s := range stored {
		if item, err := s.Decode(); err == nil && task.SameRequest(item, job.GetExecution()) {
			return item, nil
		}
	}
	if removed, err := r.removed(ctx); err != nil || removed {
		return nil, errors.Join(errors.New("the work item is missing"), err)
	}
	v, ok := job.(*genbusv1.VideoTask)
	if !ok {
		return nil, errors.New("the work item is missing")
	}
	return deadletter.WorkItemFromLog(v), nil
}

package video

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
)

// submission submits a queued job to an upstream, at most once if that cannot be undone.
type submission struct {
	task *heldTask
	// unanswered is the attempt that this holder knows to have an unknown outcome, and cause is
	// why.
	unanswered uint32
	cause      error
	lookUps    lookUps
	// reserved returns the reservation for this attempt's dead letter; nil without one.
	reserved func()
	// resubmits is the attempt to repeat at resubmitAt.
	resubmits  uint32
	resubmitAt time.Time
}

// submit submits a queued job. It commits the phase submitting before it writes the request, so
// that no other replica submits too.
func (s *submission) submit(ctx context.Context) error {
	t := s.task
	now, err := t.now()
	if err != nil {
		return err
	}
	x := t.execution()
	if f := s.tooLate(now); f != nil {
		return s.failUnsubmitted(ctx, f)
	}
	if t.video().GetProtocol() != t.route.Wire.Name {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "job %s has a body in protocol %s, but route %s now speaks %s",
			t.held.Name().ID, t.video().GetProtocol(), t.route.Name, t.route.Wire.Name))
	}
	if wait := x.GetNotBefore(); wait != nil && now.Before(wait.AsTime()) {
		return t.holdUntil(wait.AsTime())
	}
	if x.GetBound() {
		return s.submitBound(ctx)
	}
	s.releaseReserved() // of an earlier attempt that was not sent
	if s.reserved, err = t.runner.shared.ReserveLetter(ctx, t.held.Name().Tenant); err != nil {
		return s.noDeadLetterCapacity(ctx, err)
	}
	defer func() {
		// In submitting, its outcome is unknown, and the reservation stays.
		if t.held.Record.Phase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			s.releaseReserved()
		}
	}()
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // if it is not submitted
	if err := t.assigned.choose(t.route.Chooser, x.GetAttempt() > 0); err != nil {
		return t.busy(err)
	}
	return s.submitTo(ctx, t.assigned.key(), capacity)
}

// tooLate returns which limit an unsubmitted job has passed, or nil.
func (s *submission) tooLate(now time.Time) *errcode.Error {
	v := s.task.video()
	if f := hold.NotStarted(v, now); f != nil {
		return f
	}
	deadline := v.GetExecution().GetDeadline()
	switch {
	// Jobs that were tried before expire too.
	case v.GetExpiresAt() != nil && now.After(v.GetExpiresAt().AsTime()):
		return errcode.New(errcode.Expired, "job %s was not submitted before its expires_at", v.GetId())
	case deadline != nil && now.After(deadline.AsTime()):
		return errcode.New(errcode.DeadlineExceeded, "job %s: the upstream refused it temporarily until the deadline of route %s", v.GetId(), s.task.route.Name)
	}
	return nil
}

// noDeadLetterCapacity ends a job that was never submitted if its tenant's stored dead letters
// alone reach the limit. Otherwise the job waits and retries. A job made from a dead letter waits
// too, because only the job still has the request.
func (s *submission) noDeadLetterCapacity(ctx context.Context, cause error) error {
	t := s.task
	if errcode.CodeOf(cause) != errcode.DeadLettersFull {
		return hold.For(hold.Retry)
	}
	if !errors.Is(cause, quota.ErrTenantBound) || t.execution().GetAttempt() > 0 || t.video().GetRetryOf() != "" {
		return t.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return s.failUnsubmitted(ctx, errcode.From(cause))
}

// reserveCapacity reserves log capacity for everything that the submission may bring. It comes
// before the slot, so that a job that waits for capacity has not tried an upstream.
func (s *submission) reserveCapacity(ctx context.Context) (joblog.Release, error) {
	capacity, ok := s.task.held.ReserveSubmission(ctx)
	if !ok {
		s.task.assigned.release()
		return nil, s.task.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return capacity, nil
}

// submitTo commits where the request goes, and sends it. After a refusal and a reload, the slot's
// key may no longer belong to the route. The job then chooses again before anything is committed.
func (s *submission) submitTo(ctx context.Context, a pool.UpstreamKey, capacity joblog.Release) error {
	t := s.task
	client, ok := t.route.Client(a)
	if !ok {
		t.assigned.release()
		return hold.For(0)
	}
	request, err := s.request(ctx, a)
	if err != nil {
		return err
	}
	if err := s.submitting(ctx, a, capacity); err != nil {
		return err
	}
	sent, ok := s.send(ctx, client, a, request)
	if !ok {
		return s.notSent(ctx)
	}
	return s.afterCreate(ctx, sent)
}

// submitting commits the submission, in the reserved capacity.
func (s *submission) submitting(ctx context.Context, a pool.UpstreamKey, capacity joblog.Release) error {
	defer capacity()
	now, err := s.task.now()
	if err != nil { // later holders compare their clocks with submit_until
		s.task.assigned.release()
		return err
	}
	timeouts, ownID := s.task.route.Timeouts, ""
	if s.task.route.Wire.OwnIDs {
		ownID = task.OwnID(s.task.video())
	}
	e, err := task.Submitting(s.task.video(), now, task.Submission{
		Upstream: a.Upstream, Key: a.Key, OwnID: ownID, Until: now.Add(timeouts.Create), Deadline: now.Add(timeouts.Deadline),
	})
	return s.task.held.Next(ctx, e, err)
}

// request returns the JSON for the upstream: the client's bytes, with the model's name if the route
// maps it.
func (s *submission) request(ctx context.Context, a pool.UpstreamKey) (body.Document, error) {
	t := s.task
	id, model := t.held.Name().ID, t.held.Request.Item().GetModel()
	d, err := t.held.Request.Body(ctx)
	if errors.Is(err, broker.ErrBodyLost) {
		return d, s.failUnsubmitted(ctx, errcode.New(errcode.InputLost, "job %s: %w", id, err))
	}
	if err != nil {
		return d, fmt.Errorf("read the request's body: %w", err)
	}
	mapped := t.route.ModelFor(a.Upstream, model)
	if mapped == model {
		return d, nil
	}
	d = d.WithText(t.route.Wire.Bodies.ModelMember(), mapped)
	if err := d.Err(); err != nil {
		return d, s.failUnsubmitted(ctx, errcode.New(errcode.Internal, "job %s: map the model: %w", id, err))
	}
	return d, nil
}

// submitBound continues a job that an earlier submission may have placed: only the same upstream
// and key recognize it.
func (s *submission) submitBound(ctx context.Context) error {
	t := s.task
	a := routes.UpstreamKey(t.execution())
	if !t.route.HasKey(a) {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "upstream %s is no longer configured", a))
	}
	return s.submitAgain(ctx, a)
}

// submitAgain submits a job to the key that may have it, within the log's capacity and the retry
// budget.
func (s *submission) submitAgain(ctx context.Context, a pool.UpstreamKey) error {
	t := s.task
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // if it is not submitted
	table := t.runner.shared.Routes
	if next, ok := table.TryRetryBudget(); !ok {
		return t.holdUntil(hold.Soon(next))
	}
	t.assigned.resume(table, a)
	return s.submitTo(ctx, a, capacity)
}

// failUnsubmitted ends a job that is not submitted. If an earlier submission may have been
// accepted, the end says so.
func (s *submission) failUnsubmitted(ctx context.Context, f *errcode.Error) error {
	if task.OutcomeUnknown(s.task.video()) {
		return s.endUnknown(ctx, f)
	}
	return s.task.fail(ctx, f)
}

func (s *submission) releaseReserved() {
	if s.reserved != nil {
		s.reserved()
		s.reserved = nil
	}
}

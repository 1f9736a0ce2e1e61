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

// submission submits a queued job to an upstream. It submits a job again only if the upstream
// certainly did not accept it, or if the route allows resubmission after an unknown outcome.
type submission struct {
	task *heldTask
	// unanswered is the attempt whose outcome this holder knows to be unknown, and cause is the
	// reason.
	unanswered uint32
	cause      error
	lookUps    lookUps
	// reserved releases the capacity for this attempt's dead letter. It is nil if no capacity is
	// reserved.
	reserved func()
	// resubmits is the attempt to resubmit at resubmitAt.
	resubmits  uint32
	resubmitAt time.Time
}

// submit submits a queued job. It commits the submitting phase before it sends the request, so that
// no other replica submits the job.
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
	s.releaseReserved() // from an earlier attempt that was not sent
	if s.reserved, err = t.runner.shared.ReserveDeadLetter(ctx, t.held.Name().Tenant); err != nil {
		return s.noDeadLetterCapacity(ctx, err)
	}
	defer func() {
		// In the submitting phase, the outcome is unknown, so keep the reservation.
		if t.held.Record.Phase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			s.releaseReserved()
		}
	}()
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // in case the job is not submitted
	if err := t.assigned.choose(t.route.Chooser, x.GetAttempt() > 0); err != nil {
		return t.busy(err)
	}
	return s.submitTo(ctx, t.assigned.key(), capacity)
}

// tooLate returns an error for the limit that an unsubmitted job has passed, or nil.
func (s *submission) tooLate(now time.Time) *errcode.Error {
	v := s.task.video()
	if f := hold.NotStarted(v, now); f != nil {
		return f
	}
	deadline := v.GetExecution().GetDeadline()
	switch {
	// expires_at also applies to jobs that were submitted before.
	case v.GetExpiresAt() != nil && now.After(v.GetExpiresAt().AsTime()):
		return errcode.New(errcode.Expired, "job %s was not submitted before its expires_at", v.GetId())
	case deadline != nil && now.After(deadline.AsTime()):
		return errcode.New(errcode.DeadlineExceeded, "job %s: the upstream refused it temporarily until the deadline of route %s", v.GetId(), s.task.route.Name)
	}
	return nil
}

// noDeadLetterCapacity ends a job that was never submitted if its tenant's stored dead letters
// alone reach the limit. Otherwise the job waits and retries. A job made from a dead letter also
// waits, because its request is stored nowhere else.
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

// reserveCapacity reserves log capacity for all events that the submission may cause. Call it
// before choosing a key, so that a job does not try an upstream while it waits for capacity.
func (s *submission) reserveCapacity(ctx context.Context) (joblog.Release, error) {
	capacity, ok := s.task.held.ReserveSubmission(ctx)
	if !ok {
		s.task.assigned.release()
		return nil, s.task.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return capacity, nil
}

// submitTo commits the upstream and key for the request and then sends it. A slot acquired after a
// refusal may have a key that a reload has since removed from the route. The job then chooses again
// before anything is committed.
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

// submitting commits the submission, using the reserved capacity.
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

// request returns the JSON to send upstream. It is the client's body, with the model name replaced
// if the route maps it.
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

// submitBound resubmits a job that an earlier submission may have placed with an upstream. Only the
// same upstream and key recognize the job.
func (s *submission) submitBound(ctx context.Context) error {
	t := s.task
	a := routes.UpstreamKey(t.execution())
	if !t.route.HasKey(a) {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "upstream %s is no longer configured", a))
	}
	return s.submitAgain(ctx, a)
}

// submitAgain resubmits a job to the key that may already have it. The job waits if the log has no
// capacity or the retry budget is used up.
func (s *submission) submitAgain(ctx context.Context, a pool.UpstreamKey) error {
	t := s.task
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // in case the job is not submitted
	table := t.runner.shared.Routes
	if next, ok := table.TryRetryBudget(); !ok {
		return t.holdUntil(hold.Soon(next))
	}
	t.assigned.resume(table, a)
	return s.submitTo(ctx, a, capacity)
}

// failUnsubmitted ends a job without submitting it. If an earlier submission may have been
// accepted, the job ends with an unknown outcome.
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

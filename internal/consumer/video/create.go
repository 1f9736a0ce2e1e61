package video

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// send calls the upstream once. It returns false without calling it if the create timeout has
// passed or the clock is wrong. This happens if the commit took too long or the clock was changed
// during it.
func (s *submission) send(ctx context.Context, client upstream.VideoClient, a pool.UpstreamKey, request body.Document) (upstream.Submission, bool) {
	t, x := s.task, s.task.execution()
	until := x.GetSubmitUntil().AsTime()
	if now, err := t.holder().Broker.Clock().Now(); err != nil || !now.Before(until) {
		return upstream.Submission{}, false
	}
	call, cancel := context.WithDeadlineCause(ctx, until, errors.New("the create timeout has passed"))
	defer cancel()
	begin := time.Now()
	call, span := t.held.Message.StartCall(call, "genbus.video.create", x)
	sent := client.Create(call, upstream.VideoCreate{JobID: t.held.Name().ID, OwnID: x.GetOwnTaskId(), Body: request, Form: x.GetForm(), Resubmission: t.assigned.sentBefore(a, x.GetAttempt())})
	var cause error // a nil *upstream.Error in an error would not be nil
	if sent.Err != nil {
		cause = sent.Err
	}
	hold.EndSpan(span, cause)
	t.runner.shared.calls.count(a.Upstream, "create", sent.Verdict.String(), statusOf(cause), time.Since(begin))
	return sent, true
}

func (s *submission) notSent(ctx context.Context) error {
	s.task.assigned.release()
	s.certainlyNot()
	if err := s.task.held.Persist(ctx, func() (task.Event, error) { return s.requeued(time.Now(), "not_sent") }); err != nil {
		return err
	}
	return hold.For(0)
}

// afterCreate commits the outcome of the create request.
func (s *submission) afterCreate(ctx context.Context, sent upstream.Submission) error {
	t := s.task
	t.assigned.report(t.route.Chooser, t.held.Name(), sent)
	switch sent.Verdict {
	case upstream.Accepted:
		return s.submitted(ctx, sent)
	case upstream.RefusedForGood, upstream.RefusedForNow:
		s.certainlyNot()
		return s.refusedBy(ctx, sent)
	default:
		return s.unknown(ctx, sent.Err)
	}
}

// submitted records the upstream's task ID. The task has been paid for, so submitted retries the
// commit until its outcome is known. If the job can no longer record the ID, a dead letter keeps
// it.
func (s *submission) submitted(ctx context.Context, sent upstream.Submission) error {
	t := s.task
	submitted := t.execution()
	err := t.held.Persist(ctx, func() (task.Event, error) {
		return task.Submitted(t.video(), time.Now(), task.Receipt{
			UpstreamID: sent.UpstreamID, Ticket: errcode.Clip(sent.Ticket, 256), Status: errcode.Clip(sent.State.Status, 128),
			Size: errcode.Clip(sent.State.Size, maxDimension), Seconds: errcode.Clip(sent.State.Seconds, maxDimension),
		})
	})
	switch {
	case err == nil:
		t.runner.metrics.Submitted(time.Since(t.video().GetCreatedAt().AsTime()))
		t.held.Logger().Info("submitted video task", "upstream", t.execution().GetUpstream(), telemetry.KeyUpstreamID, sent.UpstreamID)
		t.schedulePoll(0)
		return hold.Until(t.pollAt)
	case t.video().GetUpstreamTaskId() == sent.UpstreamID:
		return err // our own earlier write
	default:
		s.orphaned(ctx, sent, submitted)
		return err
	}
}

// orphaned stores a dead letter with the ID of an upstream task that no job records. x is the
// submission's execution.
func (s *submission) orphaned(ctx context.Context, sent upstream.Submission, x *genbusv1.Execution) {
	t, id := s.task, s.task.held.Name().ID
	a, attempt := routes.UpstreamKey(x), x.GetAttempt()
	f := errcode.New(errcode.OrphanedSubmission, "upstream %s has task %s for job %s, which could no longer record it", a.Upstream, sent.UpstreamID, id)
	letter := deadletter.FromJob(t.held.Request.Item(), t.video(), f)
	letter.Attempt, letter.Upstream, letter.UpstreamKey = attempt, a.Upstream, a.Key
	letter.UpstreamTaskId, letter.UpstreamTicket = sent.UpstreamID, errcode.Clip(sent.Ticket, 256)
	// Each upstream task has been paid for, so each needs its own dead letter.
	occasion := fmt.Sprintf("%d.%x", attempt, sha256.Sum256([]byte(a.Upstream+"\x00"+sent.UpstreamID)))
	for {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold.CommitTimeout)
		err := t.holder().DeadLetters.Put(try, letter, id, occasion)
		cancel()
		if err == nil {
			t.held.Request.OutcomeKnown(attempt)
			t.held.Logger().Warn("stored dead letter for orphaned submission", "upstream", a.Upstream, telemetry.KeyUpstreamID, sent.UpstreamID)
			return
		}
		t.held.Logger().Error("could not store dead letter for orphaned submission", "upstream", a.Upstream, telemetry.KeyUpstreamID, sent.UpstreamID, telemetry.KeyError, err)
		if broker.Wait(ctx, hold.Retry) != nil {
			return // only the log message remains
		}
	}
}

// certainlyNot records that the upstream does not have this attempt's task. It records nothing if
// the outcome of an earlier attempt is unknown, because the upstream may have that attempt's task.
func (s *submission) certainlyNot() {
	if x := s.task.execution(); !x.GetBound() {
		s.task.held.Request.OutcomeKnown(x.GetAttempt())
	}
}

package video

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// defaultLookUps are the default delays of the lookups, measured from when this holder detected the
// unknown outcome.
var defaultLookUps = []time.Duration{0, 10 * time.Second, time.Minute, 5 * time.Minute}

// lookUps tracks the lookups of one attempt's task.
type lookUps struct {
	attempt uint32
	began   time.Time
	done    int
}

// next returns when the next lookup is due, or zero if none is left.
func (l *lookUps) next(schedule []time.Duration) time.Time {
	if l.done >= len(schedule) {
		return time.Time{}
	}
	return l.began.Add(schedule[l.done])
}

// lookUp asks the upstream for the task of a submission with an unknown outcome if a lookup is due.
// If now is true, it makes the next lookup even if that is not due yet. found is nil if no task was
// found. again is when the next lookup is due, or zero if none is left.
func (s *submission) lookUp(ctx context.Context, now bool) (found *upstream.Submission, again time.Time) {
	t := s.task
	x, schedule := t.execution(), t.runner.shared.LookUps
	client, _ := t.route.Client(routes.UpstreamKey(x))
	vendor, finds := client.(upstream.Finder)
	if !finds || x.GetOwnTaskId() == "" {
		return nil, time.Time{}
	}
	if s.lookUps.attempt != x.GetAttempt() {
		s.lookUps = lookUps{attempt: x.GetAttempt(), began: time.Now()}
	}
	if at := s.lookUps.next(schedule); at.IsZero() || !now && time.Now().Before(at) {
		return nil, at
	}
	s.lookUps.done++
	l, found := s.ask(ctx, vendor)
	t.held.Request.LookedUp(l)
	t.held.Logger().Info("looked up task of unknown outcome",
		"upstream", x.GetUpstream(), "own_task_id", x.GetOwnTaskId(), "result", l.GetResult(), telemetry.KeyUpstreamID, l.GetUpstreamTaskId(), "detail", l.GetDetail())
	return found, s.lookUps.next(schedule)
}

func (s *submission) ask(ctx context.Context, vendor upstream.Finder) (*genbusv1.LookUp, *upstream.Submission) {
	x := s.task.execution()
	ticket, err := s.ticket(ctx)
	if err != nil {
		return &genbusv1.LookUp{Time: timestamppb.Now(), Result: genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_KNOWN, Detail: upstream.CutMessage(err.Error())}, nil
	}
	return upstream.LookUp(ctx, vendor, upstream.TaskRef{ID: x.GetOwnTaskId(), Ticket: ticket}, x.GetFirstSubmitAt().AsTime())
}

// ticket returns the text that the upstream's protocol needs in addition to an ID to read the job's
// task. It is empty if the protocol needs none.
func (s *submission) ticket(ctx context.Context) (string, error) {
	bodies := s.task.route.Wire.Bodies
	ticketer, needed := bodies.(upstream.Ticketer)
	if !needed {
		return "", nil
	}
	request, err := s.task.held.Request.Body(ctx)
	if err != nil {
		return "", fmt.Errorf("read the request's body: %w", err)
	}
	sent := request.WithText(bodies.ModelMember(), s.task.route.ModelFor(s.task.execution().GetUpstream(), s.task.video().GetModel()))
	return ticketer.Ticket(sent), sent.Err()
}

// lookUpEnded looks up the task of a job that another writer ended while the submission outcome was
// unknown. It asks once. If the upstream has the task, a dead letter keeps its ID, because the task
// has been paid for.
func (s *submission) lookUpEnded(ctx context.Context) error {
	t := s.task
	if !t.execution().GetSubmissionOutcomeUnknown() || !t.held.Request.Owes(t.video()) {
		return nil
	}
	found, _ := s.lookUp(ctx, true)
	switch {
	case found != nil:
		s.orphaned(ctx, *found, t.execution())
	case ctx.Err() != nil:
		return hold.Return()
	}
	return nil
}

package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// attachable lists the error codes of dead letters whose upstream has, or may have, a task.
var attachable = []errcode.Code{errcode.SubmissionUnknown, errcode.OrphanedSubmission, errcode.UpstreamRemoved, errcode.Poisoned, errcode.LogLost}

// Attach creates a new job for a video task that an upstream already has, and removes the dead
// letter. It submits nothing. taskID is the upstream's task ID. If it is empty, Attach uses the ID
// in the dead letter. If there is none, Attach looks up the task at the upstream by our ID.
//
// Like Redrive, Attach creates at most one job per dead letter. A dead letter that has been
// attached can be neither redriven nor attached to another task.
func (p *DeadLetterActions) Attach(ctx context.Context, seq uint64, taskID string) (joblog.Entry, error) {
	l, err := p.deadLetter(ctx, seq)
	if err != nil {
		return joblog.Entry{}, err
	}
	data, err := p.data(ctx, l)
	if err != nil && errcode.CodeOf(err) != errcode.InputLost { // even without the request, the dead letter has all that the job needs
		return joblog.Entry{}, err
	}
	if taskID == "" && l.GetUpstreamTaskId() == "" && l.GetOwnTaskId() != "" && l.attachable() {
		found, err := p.lookUp(ctx, l, data)
		if err != nil {
			return joblog.Entry{}, err
		}
		if found.GetResult() != genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND {
			return joblog.Entry{}, wrongTaskID("is missing; the look-up by our ID says: " + task.LookUpText(found))
		}
		taskID = found.GetUpstreamTaskId()
	}
	if taskID, err = taskOf(l, taskID); err != nil {
		return joblog.Entry{}, err
	}
	attachment := p.attachment(l, data, taskID)
	r := accepted(l, data)
	r.Protocol, r.Attached, r.ExpiresAt = attachment.Route.Protocol, attachment, time.Time{} // the task has started
	return p.resolve(ctx, l, r)
}

// taskOf returns the ID of the task to attach. If given is empty, it is the ID in the dead letter.
func taskOf(l deadLetter, given string) (string, error) {
	if !l.attachable() {
		return "", errcode.New(errcode.DeadLetterUnusable,
			"dead letter %d (%s) has no video submitted to an upstream, so there is nothing to attach; redrive it, or drop it", l.seq, l.GetError().GetCode())
	}
	id := cmp.Or(given, l.GetUpstreamTaskId())
	if id == "" {
		return "", wrongTaskID("is missing, and the dead letter has none; find the task in the upstream's own list")
	}
	if len(id) > upstream.MaxTaskID || !printable(id) {
		return "", wrongTaskID(fmt.Sprintf("must be an upstream task ID: at most %d printable ASCII characters without spaces", upstream.MaxTaskID))
	}
	return id, nil
}

// attachable reports whether the dead letter concerns a video that was submitted to an upstream.
func (l deadLetter) attachable() bool {
	return l.GetWork() != nil && subject.Kind(l.GetKind()) == subject.Video && l.GetUpstream() != "" &&
		slices.Contains(attachable, errcode.Code(l.GetError().GetCode()))
}

func wrongTaskID(description string) error {
	return errcode.Invalid([]errcode.Violation{{Field: "upstream_task_id", Description: description}})
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// attachment returns the task with the route that polls it, using the upstream key of its
// submission. If no route can poll it, attachment sets Refusal instead of returning an error,
// because admission may find that the dead letter already has a job.
func (p *DeadLetterActions) attachment(l deadLetter, data []byte, taskID string) *admission.Attachment {
	work := l.GetWork()
	key := pool.UpstreamKey{Upstream: l.GetUpstream(), Key: l.GetUpstreamKey()}
	a := &admission.Attachment{
		Model: work.GetModel(), Asked: upstream.Asked{Size: work.GetSize(), Seconds: work.GetSeconds()},
		Task: &genbusv1.AttachedTask{
			Upstream: key.Upstream, UpstreamKey: key.Key, UpstreamTaskId: taskID, Attempt: l.GetAttempt(),
			Code: l.GetError().GetCode(), Named: l.GetUpstreamTaskId(), OwnTaskId: l.GetOwnTaskId(),
		},
	}
	a.Route.Name, a.Route.Protocol = work.GetRoute(), work.GetProtocol()
	submitted := l.task()
	home, _ := p.Routes.Home(submitted)
	if _, ok := p.Routes.Client(submitted); !ok {
		a.Refusal = unreadable(l)
		return a
	}
	a.Route = home.Route
	a.Task.UpstreamTicket, a.Refusal = ticket(l, home, a.Model, data)
	return a
}

// task returns a task with the fields that select the route and the upstream key.
func (l deadLetter) task() *genbusv1.VideoTask {
	return &genbusv1.VideoTask{
		Protocol:  l.GetWork().GetProtocol(),
		Execution: &genbusv1.Execution{Route: l.GetWork().GetRoute(), Upstream: l.GetUpstream(), UpstreamKey: l.GetUpstreamKey()},
	}
}

// unreadable returns the error for a task that no route can poll.
func unreadable(l deadLetter) *errcode.Error {
	return errcode.New(errcode.UpstreamRemoved, "dead letter %d: no route polls upstream %s in protocol %s; configure a route with that upstream, protocol and key, then call again",
		l.seq, pool.UpstreamKey{Upstream: l.GetUpstream(), Key: l.GetUpstreamKey()}, l.GetWork().GetProtocol())
}

// ticket returns the ticket that the protocol needs in addition to the task ID. It comes from the
// dead letter or, if the upstream's answer was never read, from the request body.
func ticket(l deadLetter, home *routes.Video, model string, data []byte) (string, error) {
	t, ok := home.Wire.Bodies.(upstream.Ticketer)
	if l.GetUpstreamTicket() != "" || !ok {
		return l.GetUpstreamTicket(), nil
	}
	sent := body.Trusted(data).WithText(home.Wire.Bodies.ModelMember(), home.ModelFor(l.GetUpstream(), model))
	if found := t.Ticket(sent); sent.Err() == nil && found != "" {
		return found, nil
	}
	return "", errcode.New(errcode.DeadLetterUnusable, "dead letter %d: protocol %s needs the original request to read a task, and the request is gone", l.seq, home.Wire.Name)
}

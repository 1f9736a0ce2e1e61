package operator

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// orphan cancels a job while its create is in flight and returns the dead letter that keeps the
// upstream's id.
func (r *replica) orphan(requestID string) *genbusv1.StoredDeadLetter {
	r.t.Helper()
	begun, answer := make(chan struct{}, 10), make(chan struct{})
	r.up.Sandbox.SetBehaviour(func(m *http.Request, _ []byte) *sandbox.Behaviour {
		if m.Method == http.MethodPost {
			begun <- struct{}{}
			select {
			case <-answer:
			case <-m.Context().Done():
			}
		}
		return nil
	})
	defer r.up.Sandbox.SetBehaviour(nil)
	e := r.admit(subject.Video, requestID, videoBody)
	<-begun
	e = r.until(e.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTING)
	next, err := task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"})
	if err == nil {
		_, err = r.o.Log.Commit(r.t.Context(), next, e.Seq)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	close(answer)
	id := e.Job.GetId()
	await(r.t, "the orphan's dead letter", func() bool {
		for _, l := range r.deadLetters(Query{Code: string(errcode.OrphanedSubmission), Size: 100}) {
			if l.GetLetter().GetId() == id {
				return true
			}
		}
		return false
	})
	return r.deadLetterOf(id)
}

// checkAttached checks that an attached job begins where the old one ended, and completes.
func (r *replica) checkAttached(e joblog.Entry, l *genbusv1.DeadLetter, taskID string) {
	r.t.Helper()
	end := r.end(e.Name())
	if v := videoOf(end); v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || v.GetRetryOf() != l.GetId() || v.GetLabels()["team"] != "a" {
		r.t.Errorf("ended %v", end.Job)
	}
	old := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: l.GetId()}
	if ended, err := r.o.Log.Get(r.t.Context(), old); err == nil { // a test may have stored a dead letter without a job
		await(r.t, "the old job names it", func() bool {
			m, err := r.Describe(r.t.Context(), ended)
			return err == nil && slices.Contains(m.GetReplacedBy(), e.Job.GetId())
		})
	}
	all := r.history(e.Name())
	v := videoOf(all[0])
	x := v.GetExecution()
	if x.GetPhase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTED || v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || v.GetUpstreamTaskId() != taskID ||
		x.GetUpstream() != l.GetUpstream() || x.GetUpstreamKey() != l.GetUpstreamKey() || x.GetAttempt() != l.GetAttempt() ||
		x.GetFirstSubmitAt() == nil || x.GetDeadline() == nil {
		r.t.Errorf("the first event is %v", v)
	}
	for _, later := range all {
		if later.Job.GetExecution().GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			r.t.Error("an attached job was submitted")
		}
	}
}

// TestAttachMakesOneJobAndNoCreate checks that concurrent calls on two replicas attach a dead
// letter once, and that the task is polled with its upstream key and not created again.
func TestAttachMakesOneJobAndNoCreate(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		keys := func(c *config.Config) {
			u := c.Upstreams[config.SandboxUpstream]
			for _, name := range []string{"a", "b"} {
				u.Keys = append(u.Keys, config.UpstreamKey{Name: name, Key: config.NewSecret("key-" + name), KeyEnv: "KEY"})
			}
			c.Upstreams[config.SandboxUpstream] = u
		}
		one, two := newReplica(t, open(t), up, keys).start(), newReplica(t, open(t), up, keys)
		orphan := one.orphan("o")
		unknown := one.unknownDeadLetter(up, "u", videoBody)
		found := ask(t, up, "/v1/video/generations", unknown.GetLetter().GetId(), unknown.GetLetter().GetData())
		for given, l := range map[string]*genbusv1.StoredDeadLetter{"": orphan, found: unknown} {
			before := up.Sandbox.Stats().Creates
			ids, codes := together(6, func(i int) (joblog.Entry, error) {
				return []*replica{one, two}[i%2].Attach(t.Context(), l.GetSequence(), given)
			})
			if len(ids) != 1 || codes[string(errcode.DeadLetterNotFound)]+ids[first(ids)] != 6 {
				t.Fatalf("jobs %v, errors %v", ids, codes)
			}
			taskID := given
			if given == "" {
				taskID = l.GetLetter().GetUpstreamTaskId()
			}
			one.checkAttached(logEntry(one, first(ids)), l.GetLetter(), taskID)
			if creates := up.Sandbox.Stats().Creates - before; creates != 0 {
				t.Errorf("%d creates", creates)
			}
			one.isRemoved(l.GetSequence())
		}
	})
}

func logEntry(r *replica, id string) joblog.Entry {
	r.t.Helper()
	e, err := r.o.Log.Get(r.t.Context(), videoName(id))
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// TestAttachAfterACrash checks that after a crash at any point the job begins submitted and no
// create is made.
func TestAttachAfterACrash(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		for name, crash := range crashes {
			up := newSandbox(t)
			one := newReplica(t, open(t), up).start()
			l := one.orphan(name)
			one.stop()
			before := up.Sandbox.Stats().Creates
			e := one.attachWithoutRemoval(l.GetSequence())
			crash(t, one, e)
			two := newReplica(t, open(t), up).start() // first its consumer, then a second Attach
			two.checkAttached(e, l.GetLetter(), l.GetLetter().GetUpstreamTaskId())
			if again, err := two.Attach(t.Context(), l.GetSequence(), ""); err != nil || again.Job.GetId() != e.Job.GetId() || !again.Terminal() {
				t.Errorf("%s: %v, %v", name, again.Job, err)
			}
			if creates := up.Sandbox.Stats().Creates - before; creates != 0 {
				t.Errorf("%s: %d creates", name, creates)
			}
			two.isRemoved(l.GetSequence())
			two.stop()
		}
	})
}

// TestAttachAfterACrashAndAReload checks that a repeated Attach removes its dead letter, even if
// the task's upstream key was removed from the configuration. No other task is attached instead.
func TestAttachAfterACrashAndAReload(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		for name, crash := range crashes {
			up := newSandbox(t)
			one := newReplica(t, open(t), up).start()
			l, other := one.orphan(name), one.orphan("not attached: "+name)
			one.stop()
			e := one.attachWithoutRemoval(l.GetSequence())
			crash(t, one, e)
			two := newReplica(t, open(t), up, func(c *config.Config) {
				c.Upstreams["later"] = c.Upstreams[config.SandboxUpstream]
				delete(c.Upstreams, config.SandboxUpstream)
				for i := range c.Routes {
					c.Routes[i].Upstream, c.Routes[i].Upstreams = "later", nil
				}
			})
			if _, err := two.Attach(t.Context(), l.GetSequence(), "another"); errcode.CodeOf(err) != errcode.DeadLetterResolved {
				t.Errorf("%s: attached to another task: %v", name, err)
			}
			if again, err := two.Attach(t.Context(), l.GetSequence(), ""); err != nil || again.Job.GetId() != e.Job.GetId() {
				t.Errorf("%s: %v, %v", name, again.Job, err)
			}
			two.isRemoved(l.GetSequence())
			if _, err := two.Attach(t.Context(), other.GetSequence(), ""); errcode.CodeOf(err) != errcode.UpstreamRemoved {
				t.Errorf("%s: a dead letter without a job: %v", name, err)
			}
		}
	})
}

// attachWithoutRemoval attaches like an operator whose replica crashes after the acceptance.
func (r *replica) attachWithoutRemoval(seq uint64) joblog.Entry {
	r.t.Helper()
	l, err := r.deadLetter(r.t.Context(), seq)
	if err != nil {
		r.t.Fatal(err)
	}
	request := accepted(l, l.GetData())
	request.Attached = r.attachment(l, l.GetData(), l.GetUpstreamTaskId())
	return r.accept(l, request)
}

// TestOneDeadLetterIsOneJob checks that a dead letter makes one job when it is redriven and
// attached to different tasks, at once or after a crash.
func TestOneDeadLetterIsOneJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		one, two := newReplica(t, open(t), up).start(), newReplica(t, open(t), up)
		for round := range 3 {
			l := one.orphan(fmt.Sprint("o", round))
			before := up.Sandbox.Stats().Creates
			ids, codes := together(6, func(i int) (joblog.Entry, error) {
				switch r := []*replica{one, two}[i%2]; i / 2 {
				case 0:
					return r.Redrive(t.Context(), l.GetSequence())
				case 1:
					return r.Attach(t.Context(), l.GetSequence(), "another")
				default:
					return r.Attach(t.Context(), l.GetSequence(), "")
				}
			})
			if len(ids) != 1 || codes[string(errcode.DeadLetterNotFound)]+codes[string(errcode.DeadLetterResolved)]+ids[first(ids)] != 6 {
				t.Fatalf("jobs %v, errors %v", ids, codes)
			}
			if creates := up.Sandbox.Stats().Creates - before; creates > 1 {
				t.Errorf("%d creates", creates)
			}
			one.isRemoved(l.GetSequence())
		}
		l := one.orphan("crash")
		e := one.attachWithoutRemoval(l.GetSequence())
		if _, err := two.Redrive(t.Context(), l.GetSequence()); errcode.CodeOf(err) != errcode.DeadLetterResolved || errcode.From(err).JobID != e.Job.GetId() {
			t.Errorf("redriven after it was attached: %v", err)
		}
		if _, err := two.Attach(t.Context(), l.GetSequence(), "another"); errcode.CodeOf(err) != errcode.DeadLetterResolved {
			t.Errorf("attached to another task: %v", err)
		}
		one.end(e.Name())
	})
}

// TestAttachInEveryProtocol checks protocols that need a ticket from the request besides the task
// id. TestADeadLetterIsLookedUp covers Kling.
func TestAttachInEveryProtocol(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/videos": `{"model":"sandbox-videos","prompt":"a cat"}`,
		"/jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31": `{"req_key":"sandbox-jimeng","prompt":"a cat"}`,
	} {
		up := newSandbox(t)
		r := newReplica(t, brokertest.Single(t), up).start()
		l := r.unknownDeadLetter(up, "u", body)
		found := ask(t, up, path, l.GetLetter().GetId(), l.GetLetter().GetData())
		before := up.Sandbox.Stats().Creates
		e, err := r.Attach(t.Context(), l.GetSequence(), found)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		r.checkAttached(e, l.GetLetter(), found)
		if creates := up.Sandbox.Stats().Creates - before; creates != 0 {
			t.Errorf("%s: %d creates", path, creates)
		}
		r.stop()
	}
}

// TestAttachIsRefused checks which dead letters and configurations Attach rejects.
func TestAttachIsRefused(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, up)
	good := &genbusv1.DeadLetter{
		Error: &genbusv1.TaskError{Code: string(errcode.OrphanedSubmission)}, Id: subject.JobID(subject.Video, "acme", "x"), Kind: "video", Tenant: "acme",
		Data: []byte(videoBody), Upstream: config.SandboxUpstream, UpstreamTaskId: "up_1",
		Work: &genbusv1.WorkItem{Model: "sandbox-video", Route: config.SandboxVideoRoute, Protocol: "primary", AcceptedAt: timestamppb.Now()},
	}
	for name, row := range map[string]struct {
		change func(*genbusv1.DeadLetter)
		given  string
		code   errcode.Code
	}{
		"a chat":                 {func(l *genbusv1.DeadLetter) { l.Kind = "chat" }, "", errcode.DeadLetterUnusable},
		"refused in the inbox":   {func(l *genbusv1.DeadLetter) { l.Error.Code = string(errcode.InvalidRequest) }, "x", errcode.DeadLetterUnusable},
		"never submitted":        {func(l *genbusv1.DeadLetter) { l.Upstream = "" }, "x", errcode.DeadLetterUnusable},
		"no id":                  {func(l *genbusv1.DeadLetter) { l.UpstreamTaskId = "" }, "", errcode.InvalidRequest},
		"an id that is none":     {func(*genbusv1.DeadLetter) {}, "a b", errcode.InvalidRequest},
		"upstream removed":       {func(l *genbusv1.DeadLetter) { l.Upstream = "gone" }, "", errcode.UpstreamRemoved},
		"protocol without route": {func(l *genbusv1.DeadLetter) { l.Work.Protocol = "gone" }, "", errcode.UpstreamRemoved},
		"no work item":           {func(l *genbusv1.DeadLetter) { l.Work = nil }, "", errcode.DeadLetterUnusable},
		"ticket lost": {func(l *genbusv1.DeadLetter) {
			l.Data, l.DataRef, l.Work.Protocol, l.Work.Model = nil, lostBody, "jimeng", "sandbox-jimeng"
		}, "", errcode.DeadLetterUnusable},
		"request lost":  {func(l *genbusv1.DeadLetter) { l.Data, l.DataRef = nil, lostBody }, "", ""},
		"route renamed": {func(l *genbusv1.DeadLetter) { l.Work.Route = "gone" }, "", ""},
	} {
		l := proto.CloneOf(good)
		l.Id = subject.JobID(subject.Video, "acme", name)
		row.change(l)
		seq := store(t, r, l, "x")
		e, err := r.Attach(t.Context(), seq, row.given)
		if errcode.CodeOf(err) != row.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil {
			x := e.Job.GetExecution()
			if videoOf(e).GetUpstreamTaskId() != "up_1" || x.GetRoute() != config.SandboxVideoRoute || x.GetPhase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTED {
				t.Errorf("%s: %v", name, e.Job)
			}
			r.isRemoved(seq)
		} else if _, err := r.DeadLetter(t.Context(), seq); err != nil {
			t.Errorf("%s: the dead letter is gone: %v", name, err)
		}
	}
	if creates := up.Sandbox.Stats().Creates; creates != 0 {
		t.Errorf("%d creates", creates)
	}
}

var lostBody = &genbusv1.BlobRef{Bucket: "GENBUS_BODIES_acme", Name: "gone", Size: 1}

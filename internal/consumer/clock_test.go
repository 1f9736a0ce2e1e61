package consumer

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// wallClock is a time of day that can be set.
type wallClock struct{ shift atomic.Int64 }

func (w *wallClock) now() time.Time { return time.Now().Add(time.Duration(w.shift.Load())) }

func (w *wallClock) set(shift time.Duration) { w.shift.Store(int64(shift)) }

// openWithClock connects a replica whose machine has this time of day.
func openWithClock(t testing.TB, s *server.Server, w *wallClock) *broker.Broker {
	t.Helper()
	return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL(), Wall: w.now})
}

// wrongBy has both directions of a wrong clock.
var wrongBy = map[string]time.Duration{"ahead": 49 * time.Hour, "behind": -49 * time.Hour}

func (r *replica) current(t testing.TB, e joblog.Entry) joblog.Entry {
	t.Helper()
	current, err := r.log.Get(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	return current
}

// runsAt waits until a job was started, and checks that a replica has done it.
func (r *replica) runsAt(t testing.TB, e joblog.Entry, at *replica) {
	t.Helper()
	r.begun(t, e)
	if x := r.current(t, e).Job.GetExecution(); x.GetWriter() != at.log.Writer() {
		t.Errorf("%s is carried on by another replica", e.Name().ID)
	}
}

func admitChat(t testing.TB, r *replica) joblog.Entry {
	t.Helper()
	e, err := r.Admission.Admit(t.Context(), admission.Request{
		Kind: subject.Chat, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"tell me of the sea"}]}`)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAWrongClockEndsNothing proves that a replica with a clock wrong by 49 h ends and accepts no
// jobs, while a replica with a correct clock expires and completes them.
func TestAWrongClockEndsNothing(t *testing.T) {
	t.Parallel()
	for name, shift := range wrongBy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := brokertest.Alone(t), &wallClock{}
			w.set(shift)
			up := newSlowUpstream(t)
			cfg := testConfig(t, up.url, oneAtATime(1))
			right, b := newReplica(t, openAt(t, s.ClientURL()), cfg), openWithClock(t, s, w)
			wrong := newReplica(t, b, cfg)
			running := admitVideo(t, right, "acme", "running")
			right.runsAt(t, running, right)
			jobs := []joblog.Entry{running, admitChat(t, right)}
			for i := range 3 {
				jobs = append(jobs, admitVideo(t, right, "acme", fmt.Sprint("waiting", i)))
			}

			_, err := wrong.Admission.Admit(t.Context(), admission.Request{Kind: subject.Video, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"x"}`)), ExpiresAt: time.Now().Add(time.Hour)})
			if f := errcode.From(err); err == nil || f.Code != errcode.ClockWrong || !f.Meaning().Retry || f.Meaning().HTTP != http.StatusServiceUnavailable {
				t.Errorf("a request to the wrong one: %v", err)
			}

			// The latest deadline that both know. By then, a replica that ends jobs by time has
			// checked all of them.
			over := admitVideo(t, right, "acme", "over", expiring(3*time.Second))
			if end := entryOf(t, right, over.Name()); end.Job.GetError().GetCode() != string(errcode.Expired) || end.Time.Before(over.Job.GetExpiresAt().AsTime()) {
				t.Errorf("the one whose time is over ended at %s with %v", end.Time, end.Job.GetError())
			}
			for _, e := range jobs {
				if now := right.current(t, e); now.Terminal() {
					t.Errorf("%s ended with %v", e.Name().ID, now.Job.GetError())
				}
			}
			close(up.done)
			for _, e := range jobs {
				end := entryOf(t, right, e.Name())
				if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || end.Job.GetExecution().GetWriter() != right.log.Writer() {
					t.Errorf("%s ended with %v, or at the wrong replica", e.Name().ID, end.Job.GetError())
				}
			}
			up.askedOnce(t, len(jobs)-1, 1)
			if letters := deadLetters(t, b); len(letters) != 0 {
				t.Errorf("dead letters: %v", letters)
			}
		})
	}
}

// TestAClockThatIsSetWhileItRuns proves that a replica whose clock becomes wrong continues to poll,
// even past deadlines, and takes no jobs until the clock is right again.
func TestAClockThatIsSetWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, shift := range wrongBy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w := brokertest.Alone(t), &wallClock{}
			up := newSlowUpstream(t)
			cfg := testConfig(t, up.url)
			other := idleReplica(t, openAt(t, s.ClientURL()), cfg) // accepts, and takes nothing
			b := openWithClock(t, s, w)
			r := newReplica(t, b, cfg)
			held := admitVideo(t, other, "acme", "held")
			id := held.Name().ID
			polls := func() int { return up.number(func() int { return up.polls[id] }) }
			r.eventually(t, "it is polled", func() bool { return polls() > 0 })

			// If the clock were set before the submission, the job would go to another replica.
			w.set(shift)
			jobs := []joblog.Entry{held, admitVideo(t, other, "acme", "later"), admitChat(t, other)}
			before := polls()
			other.eventually(t, "it is polled on", func() bool { return polls() > before+3 })
			if now := other.current(t, held); now.Terminal() {
				t.Errorf("it ended with %v", now.Job.GetError())
			}
			for _, e := range jobs[1:] {
				if now := other.current(t, e); now.Version() != 1 {
					t.Errorf("%s was begun: %v", e.Name().ID, now.Job.GetExecution())
				}
			}
			third := newReplica(t, openAt(t, s.ClientURL()), cfg)
			later := jobs[1].Name().ID
			third.eventually(t, "the later one is polled", func() bool { return up.number(func() int { return up.polls[later] }) > 0 })
			third.runsAt(t, jobs[2], third)

			third.stop(false) // dies
			w.set(0)
			last := admitVideo(t, r, "acme", "last")
			r.runsAt(t, last, r)
			close(up.done)
			for _, e := range append(jobs, last) {
				if end := entryOf(t, other, e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("%s ended with %v", e.Name().ID, end.Job.GetError())
				}
			}
			up.askedOnceEach(t, []string{id, later, last.Name().ID})
			if letters := deadLetters(t, b); len(letters) != 0 {
				t.Errorf("dead letters: %v", letters)
			}
		})
	}
}

// TestAWrongClockTakesNoSubmissionOver proves that a replica with a wrong clock returns a job found
// in submitting and does not end it as unknown.
func TestAWrongClockTakesNoSubmissionOver(t *testing.T) {
	t.Parallel()
	s, w := brokertest.Alone(t), &wallClock{}
	up := newSlowUpstream(t)
	b := openWithClock(t, s, w)
	r := newReplica(t, b, testConfig(t, up.url))
	inherit(t, r, "v", func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now.Add(time.Hour), Deadline: now.Add(24 * time.Hour)})
	})
	n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: subject.JobID(subject.Video, "acme", "request\x00v")}
	r.eventually(t, "it is held", func() bool { return heldJob(r.holder, n.ID) != nil })

	w.set(49 * time.Hour)
	r.eventually(t, "it is given to another replica", func() bool {
		r.holder.Each(hold.Held.Confirm)
		return heldJob(r.holder, n.ID) == nil
	})
	w.set(0)
	r.eventually(t, "it is held again", func() bool { return heldJob(r.holder, n.ID) != nil })
	e, err := r.log.Get(t.Context(), n)
	if err != nil || e.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
		t.Errorf("%v, %v", e.Job, err)
	}
	if letters := deadLetters(t, b); len(letters) != 0 {
		t.Errorf("dead letters: %v", letters)
	}
	up.askedOnce(t, 0, 0)
}

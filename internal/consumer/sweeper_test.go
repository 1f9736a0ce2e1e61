package consumer

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// oneAtATime sets one job in flight, and the given number of ready jobs.
func oneAtATime(places int) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight, c.Routes[i].ReadyJobs = 1, places
		}
	}
}

// neverReady starts an upstream that accepts tasks and never ends them.
func neverReady(t testing.TB) string {
	return scripted(t, map[string]http.HandlerFunc{createPath: acceptsByPrompt, pollPath: respond(`{"task_id":"x","status":"processing"}`)})
}

func admitVideo(t testing.TB, r *replica, tenant, prompt string, change ...func(*admission.Request)) joblog.Entry {
	t.Helper()
	request := admission.Request{Kind: subject.Video, Tenant: tenant, Body: body.Parse(fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt))}
	for _, f := range change {
		f(&request)
	}
	e, err := r.Admission.Admit(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func expiring(d time.Duration) func(*admission.Request) {
	return func(r *admission.Request) { r.ExpiresAt = time.Now().Add(d) }
}

// entryOf follows a job of any tenant until its end.
func entryOf(t testing.TB, r *replica, n subject.JobName) joblog.Entry {
	t.Helper()
	var out joblog.Entry
	for e, err := range r.log.Follow(t.Context(), n, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = e
	}
	return out
}

// TestJobsThatWaitEndAtTheirStartDeadline proves that undelivered jobs, ready or in the backlog,
// end at their start deadline.
func TestJobsThatWaitEndAtTheirStartDeadline(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct {
		code   string
		route  func(*config.Route)
		change func(*admission.Request)
	}{
		"expires_at":    {"expired", func(*config.Route) {}, expiring(5 * time.Second)},
		"queue timeout": {"queue_timeout", func(r *config.Route) { r.Timeouts.Queue = 5 * time.Second }, func(*admission.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b := open(t)
				cfg := testConfig(t, neverReady(t), oneAtATime(1), videoRoutes(limit.route))
				r := newReplica(t, b, cfg)
				newReplica(t, open(t), cfg) // sweeps too
				running := admitVideo(t, r, "acme", "running")
				r.begun(t, running)
				var waiting []joblog.Entry
				behind := false
				for i := range 5 { // each replica may have found a slot in the window for one
					waiting = append(waiting, admitVideo(t, r, "acme", fmt.Sprint("waiting", i), limit.change))
					if _, err := b.Next(t.Context(), b.Names().Wait(), b.Names().WaitPattern(), 1); err == nil {
						behind = true // now: a busy machine may accept the last one when the first one is over
					}
				}
				if !behind {
					t.Fatal("the backlog is empty")
				}
				for _, e := range waiting {
					end := entryOf(t, r, e.Name())
					by, _ := task.StartBy(e.Job)
					if late := end.Time.Sub(by); end.Job.GetError().GetCode() != limit.code || late < 0 || late > 30*time.Second { // nothing else would end it
						t.Errorf("ended %v, %s after the deadline", end.Job.GetError(), late)
					}
					if end.Version() != 2 {
						t.Errorf("version %d", end.Version())
					}
					inFeed(t, b, end)
				}
				r.eventually(t, "the backlog is empty", func() bool { return items(t, b, b.Names().Wait(), b.Names().WaitPattern()) == 0 })
				if current, err := r.log.Get(t.Context(), running.Name()); err != nil || current.Terminal() {
					t.Errorf("the job in work: %v, %v", current.Job, err)
				}
			})
		})
	}
}

// begun waits until a job was started.
func (r *replica) begun(t testing.TB, e joblog.Entry) {
	t.Helper()
	r.eventually(t, "the job has begun", func() bool {
		current, err := r.log.Get(t.Context(), e.Name())
		return err == nil && current.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED
	})
}

// eventually polls is until it returns true.
func (r *replica) eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// items counts the messages of a stream on a pattern.
func items(t testing.TB, b *broker.Broker, stream, pattern string) int {
	t.Helper()
	n := 0
	for seq := uint64(1); ; n++ {
		m, err := b.Next(t.Context(), stream, pattern, seq)
		if err != nil {
			return n
		}
		seq = m.Seq + 1
	}
}

func inFeed(t testing.TB, b *broker.Broker, end joblog.Entry) {
	t.Helper()
	n := end.Name()
	for begin := time.Now(); ; {
		m, err := b.Last(t.Context(), b.Names().Tasks(), b.Names().Done(n.Kind, n.Tenant, "failed", n.ID))
		if err == nil {
			if got := m.Header.Get(subject.HeaderCEID); got != end.ID() {
				t.Errorf("the feed has %s, the log %s", got, end.ID())
			}
			return
		}
		if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Since(begin) > patience {
			t.Fatalf("%s is not in the feed: %v", n.ID, err)
		}
	}
}

// TestWaitingChatsEndAtTheirStartDeadline proves the same for chats.
func TestWaitingChatsEndAtTheirStartDeadline(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	stuck := make(chan struct{})
	url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}})
	defer close(stuck)
	r := newReplica(t, b, testConfig(t, url, oneAtATime(1)))
	chat := func(change ...func(*admission.Request)) joblog.Entry {
		request := admission.Request{Kind: subject.Chat, Tenant: "acme", Body: body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`))}
		for _, f := range change {
			f(&request)
		}
		e, err := r.Admission.Admit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	running := chat()
	r.begun(t, running)
	for _, e := range []joblog.Entry{chat(expiring(time.Second)), chat(expiring(time.Second))} {
		end := entryOf(t, r, e.Name())
		if end.Job.GetError().GetCode() != "expired" {
			t.Errorf("ended %v", end.Job.GetError())
		}
		inFeed(t, b, end)
	}
}

// TestJobsThatWaitedBeforeTheStartAreSweptToo proves that the sweeper ends jobs that were accepted
// before its start.
func TestJobsThatWaitedBeforeTheStartAreSweptToo(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	item := pastItem("v")
	item.ExpiresAt = timestamppb.New(time.Now().Add(2 * time.Second))
	pastOf(t, forerunner(t, b), item)
	r := newReplica(t, b, testConfig(t, neverReady(t)))
	if end := last(follow(t, r.log, item.GetId())); end.Job.GetError().GetCode() != "expired" {
		t.Errorf("ended %v", end.Job.GetError())
	}
}

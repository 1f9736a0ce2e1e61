package consumer

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// oneAtATime has one job in work, and so many in line.
func oneAtATime(places int) func(*config.Config) {
	return func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight, c.Routes[i].ReadyJobs = 1, places
		}
	}
}

// neverReady is an upstream that accepts tasks and never ends them.
func neverReady(t testing.TB) string {
	return scripted(t, map[string]http.HandlerFunc{createPath: acceptsByPrompt, pollPath: says(`{"task_id":"x","status":"processing"}`)})
}

// admitVideo accepts a video of a tenant.
func admitVideo(t testing.TB, r *replica, tenant, prompt string, change ...func(*admission.Request)) tasklog.Entry {
	t.Helper()
	request := admission.Request{Kind: subject.Video, Tenant: tenant, Body: fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt)}
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
func entryOf(t testing.TB, r *replica, n subject.TaskName) tasklog.Entry {
	t.Helper()
	var out tasklog.Entry
	for e, err := range r.log.Follow(t.Context(), n, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = e
	}
	return out
}

// TestJobsThatWaitEndAtTheirStartDeadline, although nobody was handed their items:
// one stands in line, one behind it. What the end takes from is as stated.
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
				var waiting []tasklog.Entry
				for i := range 5 { // each replica may have found a place in line for one
					waiting = append(waiting, admitVideo(t, r, "acme", fmt.Sprint("waiting", i), limit.change))
				}
				if n := items(t, b, b.Names().Wait(), b.Names().WaitPattern()); n == 0 {
					t.Fatal("nobody waits behind the line")
				}
				for _, e := range waiting {
					end := entryOf(t, r, e.Name())
					by, _ := task.StartBy(e.Job)
					if late := end.Time.Sub(by); end.Job.GetError().GetCode() != limit.code || late < 0 || late > 5*time.Second {
						t.Errorf("ended %v, %s after the deadline", end.Job.GetError(), late)
					}
					if end.Version() != 2 {
						t.Errorf("version %d", end.Version())
					}
					inFeed(t, b, end)
				}
				r.eventually(t, "nobody waits behind the line", func() bool { return items(t, b, b.Names().Wait(), b.Names().WaitPattern()) == 0 })
				if current, err := r.log.Get(t.Context(), running.Name()); err != nil || current.Terminal() {
					t.Errorf("the job in work: %v, %v", current.Job, err)
				}
			})
		})
	}
}

// begun waits until a job is with its upstream.
func (r *replica) begun(t testing.TB, e tasklog.Entry) {
	t.Helper()
	r.eventually(t, "the job has begun", func() bool {
		current, err := r.log.Get(t.Context(), e.Name())
		return err == nil && current.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED
	})
}

// eventually asks until it is so.
func (r *replica) eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// items counts what a stream has on a pattern.
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

// inFeed checks that the feed has a job's end.
func inFeed(t testing.TB, b *broker.Broker, end tasklog.Entry) {
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

// TestWaitingChatsEndAtTheirStartDeadline too.
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
	chat := func(change ...func(*admission.Request)) tasklog.Entry {
		request := admission.Request{Kind: subject.Chat, Tenant: "acme", Body: []byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`)}
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
	for _, e := range []tasklog.Entry{chat(expiring(time.Second)), chat(expiring(time.Second))} {
		end := entryOf(t, r, e.Name())
		if end.Job.GetError().GetCode() != "expired" {
			t.Errorf("ended %v", end.Job.GetError())
		}
		inFeed(t, b, end)
	}
}

// TestJobsThatWaitedBeforeTheStartAreSweptToo: another process accepted them.
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

// TestSweeperAndHolder: whoever is first wins, and the other one stops: a job that
// was ended is not submitted, and one that is being submitted is not ended.
func TestSweeperAndHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := idleReplica(t, open(t), testConfig(t, up.URL()))
		t.Run("the sweeper is first", func(t *testing.T) { sweeperFirst(t, r, up) })
		t.Run("the holder is first", func(t *testing.T) { holderFirst(t, r) })
	})
}

// sweeperFirst ends a job that its holder is about to submit.
func sweeperFirst(t *testing.T, r *replica, up *sandbox.Server) {
	t.Helper()
	j := lateHolder(t, r, "swept")
	if _, err := r.sweeper.end(t.Context(), j.name, time.Now()); err != nil {
		t.Fatal(err)
	}
	if out := j.submitTo(t.Context(), pool.Account{Upstream: config.SandboxUpstream}, func() {}); out.verb != ack {
		t.Errorf("the holder of an ended job: %v", out)
	}
	end := last(follow(t, r.log, j.name.ID))
	if end.Job.GetError().GetCode() != "queue_timeout" || up.Sandbox.Stats().Creates != 0 {
		t.Errorf("ended %v after %d creates", end.Job.GetError(), up.Sandbox.Stats().Creates)
	}
}

// lateHolder holds a job whose start deadline has passed.
func lateHolder(t *testing.T, r *replica, request string) *videoJob {
	t.Helper()
	route, ok := r.Routes.Video(config.SandboxVideoRoute)
	if !ok {
		t.Fatal("there is no route")
	}
	item := pastItem(request)
	item.Route, item.Body = "of-another-replica", []byte(`{"model":"sandbox-video","prompt":"a cat"}`)
	item.QueueDeadline = timestamppb.New(time.Now().Add(-time.Millisecond))
	e := pastOf(t, forerunner(t, r.Broker), item)
	putItem(t, r.Broker, item)
	d, err := newDelivery(r.Broker.Conn(), delivered(t, r.Broker, r.Broker.Names().WorkItem(subject.Video, item.GetRoute(), "acme", item.GetId())))
	if err != nil {
		t.Fatal(err)
	}
	return &videoJob{
		videoRoute: &videoRoute{Consumer: r.Consumer, routeID: routeID{subject.Video, route.Name}, metrics: r.Metrics.Route(subject.Video, route.Name), polls: make(chan struct{}, maxPolls)}, Video: route,
		name: nameOf(item), item: item, entry: e, msg: d, release: func() {},
	}
}

// holderFirst commits that it submits, and then that the upstream refused for now:
// the job has begun, so its start deadline means nothing.
func holderFirst(t *testing.T, r *replica) {
	t.Helper()
	item := pastItem("held")
	item.QueueDeadline = timestamppb.New(time.Now().Add(-time.Millisecond))
	e := pastOf(t, forerunner(t, r.Broker), item, submittingTo(config.SandboxUpstream))
	r.notSwept(t, e)
	next, err := requeued(videoOf(e), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = r.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	r.notSwept(t, e)
}

// notSwept checks that the sweeper leaves a job alone.
func (r *replica) notSwept(t *testing.T, e tasklog.Entry) {
	t.Helper()
	if _, err := r.sweeper.end(t.Context(), e.Name(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if current, err := r.log.Get(t.Context(), e.Name()); err != nil || current.Seq != e.Seq {
		t.Errorf("a job in %s was ended: %v, %v", e.Job.GetExecution().GetPhase(), current.Job, err)
	}
}

// TestStartedJobsThatWereForgottenAreRecalled: more jobs are stranded than a replica
// knows deadlines of. Those that wait to be started are not in their way.
func TestStartedJobsThatWereForgottenAreRecalled(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	r.sweeper.mu.Lock()
	r.sweeper.starts, r.sweeper.ends = newDeadlines(2), newDeadlines(2)
	r.sweeper.mu.Unlock()
	var names []subject.TaskName
	for i := range 7 {
		waits := itemOf(fmt.Sprint("waits", i), config.SandboxVideoRoute, "a cat")
		waits.QueueDeadline = timestamppb.New(time.Now().Add(time.Minute))
		pastOf(t, forerunner(t, b), waits)
		item := itemOf(fmt.Sprint("v", i), config.SandboxVideoRoute, "a cat")
		pastOf(t, forerunner(t, b), item, func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(-2 * strandedAfter)})
		})
		names = append(names, nameOf(item))
	}
	r.eventually(t, "some are forgotten", func() bool {
		r.sweeper.mu.Lock()
		defer r.sweeper.mu.Unlock()
		return r.sweeper.ends.forgot && r.sweeper.starts.forgot
	})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if end := last(follow(t, r.log, n.ID)); end.Job.GetError().GetCode() != "submission_outcome_unknown" {
			t.Errorf("%s ended %v", n.ID, end.Job.GetError())
		}
	}
}

// TestAnEventThatDoesNotSayWhen its job is to be looked at, as those of an older
// version, has it looked at soon: the log knows when.
func TestAnEventThatDoesNotSayWhen(t *testing.T) {
	t.Parallel()
	r := idleReplica(t, brokertest.Single(t), testConfig(t, newSandbox(t).URL()))
	n := tasklog.Notice{Name: subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: videoID("v")}, Status: "in_progress", EndBy: time.Now().Add(time.Hour)}
	r.sweeper.notice(n)
	n.EndBy = time.Time{}
	r.sweeper.notice(n)
	if by := r.sweeper.next(); by.After(time.Now().Add(strandedAfter+sweepSpread)) || by.Before(time.Now().Add(strandedAfter/2)) {
		t.Errorf("it is looked at at %s", by)
	}
	n.Status = "completed"
	r.sweeper.notice(n)
	if by, some := r.sweeper.ends.next(); some {
		t.Errorf("it has ended, and is looked at at %s", by)
	}
}

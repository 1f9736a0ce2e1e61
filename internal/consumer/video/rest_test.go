package video

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/task"
)

// submittedUpstream is the past of a task that the sandbox's upstream has.
func submittedUpstream() []jobtest.Transition {
	return []jobtest.Transition{
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(time.Hour)})
		},
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitted(v, now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
		},
	}
}

// TestATaskRestsBetweenPolls: what its log says is kept as bytes, and its place with the
// account, its number of polls, and how they fail are kept.
func TestATaskRestsBetweenPolls(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(`{"id":"up_1","status":"in_progress"}`))
	}))
	t.Cleanup(up.Close)
	p := newProcess(t, brokertest.Single(t), up.URL, func(cfg *config.Config) {
		for i := range cfg.Routes {
			cfg.Routes[i].Poll.Interval = time.Hour // the test says when
		}
	})
	item := jobtest.PastItem("rests")
	jobtest.PastOf(t, p.Log, item, submittedUpstream()...)
	j := p.held(t, item)
	released := false
	j.release = func() { released = true }
	holder := p.runners.Holder
	poll := func() {
		t.Helper()
		j.wake = time.Time{}
		j.kick(time.Now())
		holder.Jobs.Wait()
	}
	inUse := func() int {
		for _, u := range p.Routes.Upstreams() {
			if u.Name == config.SandboxUpstream {
				return u.Keys[0].InHand
			}
		}
		return -1
	}

	for n := 1; n <= 2; n++ {
		poll()
		if j.steps != nil || j.resting.polls != n || inUse() != 1 {
			t.Fatalf("after poll %d: steps %v, %d polls, %d places", n, j.steps != nil, j.resting.polls, inUse())
		}
	}
	j.Confirm() // woken for another reason: its log is read, its upstream is not asked
	holder.Jobs.Wait()
	if j.steps != nil || j.resting.polls != 2 {
		t.Errorf("after it was woken: steps %v, %d polls", j.steps != nil, j.resting.polls)
	}
	failing.Store(true)
	poll()
	if poll(); j.steps != nil || j.resting.failures != 2 || j.resting.failed == nil || j.Tell().GetPollsFailed() != 2 {
		t.Errorf("after two failed polls: steps %v, %d failures, %v", j.steps != nil, j.resting.failures, j.resting.failed)
	}
	failing.Store(false)
	poll()
	if j.steps != nil || j.resting.polls != 5 || j.resting.failures != 0 || inUse() != 1 {
		t.Errorf("after a good poll: steps %v, %d polls, %d failures, %d places", j.steps != nil, j.resting.polls, j.resting.failures, inUse())
	}
	if v := jobtest.VideoOf(j.held.Entry()); v.GetUpstreamTaskId() != "up_1" || v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS {
		t.Errorf("its last event is %v", v)
	}
	j.HandOver()
	if !released || inUse() != 0 {
		t.Errorf("handed over at rest: released %v, %d places", released, inUse())
	}
}

package video

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/task"
)

// submittedUpstream returns the past of a job that the sandbox's upstream has.
func submittedUpstream(id string) []jobtest.Transition {
	return []jobtest.Transition{
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now, Deadline: now.Add(time.Hour)})
		},
		func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
			return task.Submitted(v, now, task.Receipt{UpstreamID: id, Status: "queued"})
		},
	}
}

// TestATaskRestsBetweenPolls proves that a resting job keeps its last event as bytes, its key's
// slot, and the number and failures of its polls.
func TestATaskRestsBetweenPolls(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	polled := make(chan struct{}, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		polled <- struct{}{}
		if failing.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(`{"id":"up_1","status":"in_progress"}`))
	}))
	t.Cleanup(up.Close)
	p := newProcess(t, brokertest.Single(t), up.URL, func(cfg *config.Config) {
		for i := range cfg.Routes {
			if cfg.Routes[i].Kind == config.KindVideo {
				cfg.Routes[i].Poll.Interval = time.Hour // the test decides when to poll
			}
		}
	})
	item := jobtest.PastItem("rests")
	jobtest.PastOf(t, p.Log, item, submittedUpstream("up_1")...)
	j := p.held(t, item)
	released := false
	j.release = func() { released = true }
	holder := p.runners.Holder
	poll := func() {
		t.Helper()
		j.mu.Lock()
		j.wake = time.Time{}
		j.mu.Unlock()
		j.kick()
		<-polled // by another goroutine: it rests until it has a slot
		holder.Jobs.Wait()
	}
	inUse := func() int {
		for _, u := range p.Routes.Upstreams() {
			if u.Name == config.SandboxUpstream {
				return u.Keys[0].InUse
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
	j.Confirm() // woken for another reason, it reads its log and does not poll
	holder.Jobs.Wait()
	if j.steps != nil || j.resting.polls != 2 {
		t.Errorf("after it was woken: steps %v, %d polls", j.steps != nil, j.resting.polls)
	}
	failing.Store(true)
	poll()
	if poll(); j.steps != nil || j.resting.failures != 2 || j.resting.failed == nil || j.Details().GetPollsFailed() != 2 {
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

// TestDueTasksRestUntilTheyHaveASlot proves that due jobs rest until they get a slot, in order,
// that a woken one keeps its place, and that one that is handed over gives it up.
func TestDueTasksRestUntilTheyHaveASlot(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan string, 1), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- path.Base(r.URL.Path)
		<-answer
		_, _ = w.Write([]byte(`{"status":"in_progress"}`))
	}))
	t.Cleanup(up.Close)
	p := newProcess(t, brokertest.Single(t), up.URL, func(cfg *config.Config) {
		for i := range cfg.Routes {
			if cfg.Routes[i].Kind == config.KindVideo {
				cfg.Routes[i].Poll.Interval = time.Hour // one poll each
			}
		}
	})
	r := p.runner()
	r.polls = newPollSlots(1)
	jobs := make([]*job, 4)
	released := make([]bool, len(jobs))
	for i := range jobs {
		item := jobtest.PastItem(fmt.Sprint("due", i))
		jobtest.PastOf(t, p.Log, item, submittedUpstream(fmt.Sprint("up_", i))...)
		j := p.heldBy(t, r, item, 2)
		j.release = func() { released[i] = true }
		j.task.pollAt = time.Now().Add(time.Hour)
		step(j)
		jobs[i] = j
	}
	wake := func(j *job) {
		j.mu.Lock()
		j.wake = time.Now()
		j.mu.Unlock()
		j.wakeUp()
	}
	polled := func(want string) {
		t.Helper()
		if id := <-asked; id != want {
			t.Fatalf("%s is polled, not %s", id, want)
		}
	}
	go wake(jobs[0]) // it returns after the poll
	polled("up_0")
	for _, j := range jobs[1:] {
		wake(j)
		if j.steps != nil || !j.awaiting {
			t.Errorf("due without a slot: steps %v, awaiting %v", j.steps != nil, j.awaiting)
		}
	}
	jobs[1].stale = true // as Confirm does
	step(jobs[1])
	jobs[2].HandOver()
	for _, want := range []string{"up_1", "up_3"} {
		answer <- struct{}{}
		polled(want)
	}
	answer <- struct{}{}
	for i, j := range jobs {
		if i != 2 {
			jobtest.Shortly(t, "a task was polled once", func() bool { return restsAfter(j, 1) })
		}
		if released[i] != (i == 2) {
			t.Errorf("job %d: released %v", i, released[i])
		}
	}
	jobtest.Shortly(t, "the slot is free", func() bool {
		r.polls.mu.Lock()
		defer r.polls.mu.Unlock()
		return r.polls.free == 1 && len(r.polls.waiting) == 0
	})
}

// restsAfter reports whether a job rests after a number of polls and does not wait for a slot.
func restsAfter(j *job, polls int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.busy && j.steps == nil && !j.awaiting && j.resting.polls == polls
}

// TestATaskWithoutASlotHasNotBeenHandled proves that a suspect job that waits for a slot counts for
// its key and does not reset its poison count: its poll may be what kills its holders.
func TestATaskWithoutASlotHasNotBeenHandled(t *testing.T) {
	t.Parallel()
	polled := make(chan struct{}, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		polled <- struct{}{}
		_, _ = w.Write([]byte(`{"id":"up_1","status":"queued"}`))
	}))
	t.Cleanup(up.Close)
	p := newProcess(t, brokertest.Single(t), up.URL, func(cfg *config.Config) {
		for i := range cfg.Routes {
			if cfg.Routes[i].Kind == config.KindVideo {
				cfg.Routes[i].Poll.Interval = time.Hour // one poll
			}
		}
	})
	r := p.runner()
	r.polls = newPollSlots(0)
	item := jobtest.PastItem("suspect")
	jobtest.PastOf(t, p.Log, item, submittedUpstream("up_1")...)
	j := p.heldBy(t, r, item, 7)
	before := j.held.Entry().Seq
	step(j)
	j.mu.Lock()
	if seq := j.held.Entry().Seq; seq != before || !j.held.Suspect() || j.resting.slot == nil {
		t.Errorf("without a slot: event %d after %d, suspect %v, counted with its key %v", seq, before, j.held.Suspect(), j.resting.slot != nil)
	}
	j.mu.Unlock()
	r.polls.release()
	<-polled // by its timer
	jobtest.Shortly(t, "the task was polled", func() bool { return restsAfter(j, 1) })
	j.mu.Lock()
	if seq := j.held.Entry().Seq; seq == before || j.held.Suspect() {
		t.Errorf("after its poll: event %d after %d, suspect %v", seq, before, j.held.Suspect())
	}
	j.mu.Unlock()
	j.HandOver()
}

// step runs the steps of an idle job until it waits.
func step(j *job) {
	if j.begin() {
		j.work(false)
	}
}

package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/task"
)

// TestEraseARunningTask proves that an erased task is no longer polled, and that its events,
// request body and work item are removed.
func TestEraseARunningTask(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: 800 * time.Millisecond})
	polled := pollsOf(w.up)
	for _, way := range eraseWays {
		t.Run(way.name, func(t *testing.T) {
			id := w.createVideo(t, largeVideo("sandbox-video:duration_ms=8000"))
			running := w.phase(t, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
			if left := w.traces(t, id); len(left) < 3 {
				t.Fatalf("a running task has only %v", left)
			}
			if got := way.erase(w.world, t, id); got != http.StatusOK {
				t.Fatalf("erase: %d", got)
			}
			before := polled(running.GetUpstreamTaskId())
			w.checkErased(t, way, id)
			// Another task runs to its end, with polls that continue.
			other := w.ended(t, w.createVideo(t, `{"model":"sandbox-video","prompt":"a dog"}`))
			if after := polled(running.GetUpstreamTaskId()); before == 0 || after != before || polled(other.GetUpstreamTaskId()) < 2 {
				t.Errorf("polled %d times before and %d after the erasure; the other task %d times", before, after, polled(other.GetUpstreamTaskId()))
			}
		})
	}
}

// TestEraseAQueuedTask proves that an erased queued task never reaches the upstream.
func TestEraseAQueuedTask(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: 600 * time.Second}, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 1
		}
	})
	first := w.createVideo(t, `{"model":"sandbox-video","prompt":"first"}`)
	w.phase(t, first, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	for _, way := range eraseWays {
		t.Run(way.name, func(t *testing.T) {
			id := w.createVideo(t, largeVideo("sandbox-video"))
			begin := time.Now()
			if got := way.erase(w.world, t, id); got != http.StatusOK {
				t.Fatalf("erase: %d", got)
			}
			if took := time.Since(begin); took > 30*time.Second { // waiting for a holder would end in a refusal
				t.Errorf("nobody held it, and yet the erasure took %s", took)
			}
			w.checkErased(t, way, id)
		})
	}
	if got := eraseWays[0].erase(w.world, t, first); got != http.StatusOK {
		t.Errorf("erase the first: %d", got)
	}
	// The slot is free, and no erased task takes it.
	last := w.createVideo(t, `{"model":"sandbox-video:duration_ms=1","prompt":"last"}`)
	if got := w.ended(t, last); got.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("the last one ended %v", got)
	}
	if n := w.up.Sandbox.Stats().Creates; n != 2 {
		t.Errorf("the upstream saw %d creates", n)
	}
}

// TestEraseWaitsForASubmission proves that a task is cancelled but not erased while a submission
// awaits its answer. Afterwards it is erased, and a dead letter names the upstream task.
func TestEraseWaitsForASubmission(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: time.Hour})
	answer := make(chan struct{})
	w.up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		return nil
	})
	id := w.createVideo(t, `{"model":"sandbox-video","prompt":"a cat"}`)
	w.phase(t, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING)
	resp, body := w.fetch(t, http.MethodDelete, "/v1/videos/"+id, "")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Genbus-Error-Code") != "still_held" || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("while it is submitted: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	if _, answer := w.get(t, "/v1/video/generations/"+id); answer["status"] != "cancelled" {
		t.Errorf("meanwhile it reads %v", answer)
	}
	close(answer)
	if got := eraseWays[0].erase(w.world, t, id); got != http.StatusOK {
		t.Fatalf("erase: %d", got)
	}
	if left := w.traces(t, id); len(left) != 1 || !strings.HasPrefix(left[0], "genbus.dead.video.") {
		t.Errorf("left behind: %v", left)
	}
	m, err := w.last(t.Context(), w.Names().Dead(), ">")
	if err != nil {
		t.Fatal(err)
	}
	letter := &genbusv1.DeadLetter{}
	if err := proto.Unmarshal(m.Data, letter); err != nil || letter.GetError().GetCode() != "orphaned_submission" || !strings.HasPrefix(letter.GetUpstreamTaskId(), "task_") {
		t.Errorf("the dead letter is %v, %v", letter, err)
	}
}

// TestEraseACompletedTask proves that erasing a task removes the copy of its result.
func TestEraseACompletedTask(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	for _, way := range eraseWays {
		t.Run(way.name, func(t *testing.T) {
			id := w.createVideo(t, largeVideo("sandbox-video"))
			if done := w.ended(t, id); done.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(done.GetArchive().GetFiles()) != 1 {
				t.Fatalf("ended %v", done)
			}
			w.checkContent(t, id)
			var objects int
			for _, trace := range w.traces(t, id) {
				if strings.HasPrefix(trace, "object ") {
					objects++
				}
			}
			if objects != 2 { // the request body and the copy
				t.Errorf("the object store has %d objects of it: %v", objects, w.traces(t, id))
			}
			if got := way.erase(w.world, t, id); got != http.StatusOK {
				t.Fatalf("erase: %d", got)
			}
			w.checkErased(t, way, id)
		})
	}
}

// TestEraseLetsTheKeyBeUsedAgain proves that the idempotency key of an erased task can be used
// again, even with another body.
func TestEraseLetsTheKeyBeUsedAgain(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	var ids []string
	for _, prompt := range []string{"a cat", "a dog"} {
		status, answer := w.post(t, "/v1/video/generations", `{"model":"sandbox-video","prompt":"`+prompt+`"}`, "Idempotency-Key", "again")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", prompt, status, answer)
		}
		id := word(answer["id"])
		if got := w.ended(t, id); got.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("%s ended %v", prompt, got)
		}
		if got := eraseWays[0].erase(w.world, t, id); got != http.StatusOK {
			t.Errorf("erase: %d", got)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || w.up.Sandbox.Stats().Tasks == 0 {
		t.Errorf("ids %v", ids)
	}
}

// TestEraseBelongsToTheTenant proves that a tenant cannot erase or read another tenant's task.
func TestEraseBelongsToTheTenant(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: time.Hour}, withPairs, func(c *config.Config) {
		c.APIKeys[1].Key = config.NewSecret("key-globex")
	})
	_, answer := w.post(t, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`, "Authorization", "Bearer key-acme")
	id := word(answer["id"])
	for _, path := range []string{"/v1/videos/", "/genbus/v1/videos/"} {
		if status, answer := w.vendorCall(t, bearer("key-globex"), http.MethodDelete, path+id, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer key-globex")
	if _, err := genbusv1grpc.NewVideoServiceClient(w.grpc).DeleteVideoTask(ctx, &genbusv1.DeleteVideoTaskRequest{Id: id}); status.Code(err) != codes.NotFound {
		t.Errorf("gRPC: %v", err)
	}
	if status, answer := w.vendorCall(t, bearer("key-acme"), http.MethodGet, "/v1/videos/"+id, ""); status != http.StatusOK {
		t.Errorf("its own tenant reads %d %v", status, answer)
	}
	if status, answer := w.vendorCall(t, bearer("key-acme"), http.MethodDelete, "/v1/videos/"+id, ""); status != http.StatusOK {
		t.Errorf("its own tenant deletes: %d %v", status, answer)
	}
}

// TestEraseEndsThoseWhoWatch proves that watchers over gRPC and SSE receive the cancellation before
// the stream ends.
func TestEraseEndsThoseWhoWatch(t *testing.T) {
	t.Parallel()
	w := newEraseWorld(t, sandbox.Options{VideoDuration: time.Hour})
	id := w.createVideo(t, `{"model":"sandbox-video","prompt":"a cat"}`)
	w.phase(t, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	watch, err := genbusv1grpc.NewVideoServiceClient(w.grpc).WatchVideoTask(t.Context(), &genbusv1.WatchVideoTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 1)
	seen := make(chan struct{})
	go func() { events <- readEvents(t, w.base+"/v1/video/generations/"+id+"/events", seen) }()
	<-seen
	if got := eraseWays[0].erase(w.world, t, id); got != http.StatusOK {
		t.Fatalf("erase: %d", got)
	}
	var last *genbusv1.VideoTask
	for {
		r, err := watch.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = r.GetEvent().GetTask()
	}
	if task.StatusWord(last.GetStatus()) != "cancelled" {
		t.Errorf("gRPC: the last event is %v", last)
	}
	if text := <-events; !strings.Contains(text[strings.LastIndex(text, "data:"):], `"status":"cancelled"`) {
		t.Errorf("SSE: the events are %s", text)
	}
}

// TestEraseAKeptRequest proves that erasing a task removes its kept request.
func TestEraseAKeptRequest(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond}, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].KeepRequests = true
		}
	})
	for _, way := range eraseWays {
		t.Run(way.name, func(t *testing.T) {
			id := w.createVideo(t, `{"model":"sandbox-video","prompt":"a cat"}`)
			if done := w.ended(t, id); done.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Fatalf("ended %v", done)
			}
			kept := 0
			for _, trace := range w.traces(t, id) {
				if strings.HasPrefix(trace, "object ") {
					kept++
				}
			}
			if kept != 1 {
				t.Errorf("the object store has %v", w.traces(t, id))
			}
			if got := way.erase(w.world, t, id); got != http.StatusOK {
				t.Fatalf("erase: %d", got)
			}
			w.checkErased(t, way, id)
		})
	}
}

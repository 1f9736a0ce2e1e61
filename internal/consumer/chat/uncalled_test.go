package chat

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// heldChat returns a chat of the sandbox's route after a number of deliveries. The test runs its
// steps.
func heldChat(t *testing.T, p *jobtest.Process, item *genbusv1.WorkItem, deliveries uint64) *job {
	t.Helper()
	h, metrics := p.Holder(t), p.Metrics.Route(subject.Chat, config.SandboxChatRoute)
	j := &job{
		runner: &Runner{Holder: h, Config: p.Config, Routes: p.Routes, Encoder: p.Encoder, Route: config.SandboxChatRoute, Metrics: metrics},
		held:   h.NewJob(item, hold.Delivery{Count: deliveries}, metrics), waiter: pool.NewWaiter(func() {}),
	}
	j.ctx, j.stop = context.WithCancelCause(j.held.Message.Context())
	t.Cleanup(func() { j.stop(nil) })
	return j
}

// TestAnUnconfirmedAttemptIsNotUsedUp proves that the only attempt is still called if the answer to
// its commit was lost.
func TestAnUnconfirmedAttemptIsNotUsedUp(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`))
	}))
	t.Cleanup(upstream.Close)
	link, through, direct := jobtest.Linked(t)
	p := jobtest.NewProcess(t, through, jobtest.Config(t, upstream.URL, func(c *config.Config) { c.Chat.MaxAttempts = 1 }))
	p.Start(t)
	item := chatItem()
	if _, err := p.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
		t.Fatal(err)
	}
	j := heldChat(t, p, item, 2)
	if err := j.held.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobtest.CommitUnconfirmed(t, link, direct, j.held, attempt(t, j.held.Entry()))
	jobtest.Shortly(t, "the chat is answered", func() bool { return !hold.Waits(j.step()) })
	if c := j.chat(); c.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || c.GetAttempt() != 1 || calls.Load() != 1 {
		t.Errorf("%v with %v after %d attempts and %d calls", c.GetStatus(), c.GetError(), c.GetAttempt(), calls.Load())
	}
}

// TestAChatThatIsNotOursWaits proves that the loss of a chat ends only the wait in which it
// happens, so that later retries, for example against a full feed, still wait.
func TestAChatThatIsNotOursWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &hold.Holder{Life: &hold.Life{Fetching: t.Context()}}
		j := &job{runner: &Runner{Holder: h}, turn: make(chan struct{}, 1)}
		j.ctx, j.stop = context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { j.stop(errNotOurs) })
		for i, want := range []time.Duration{time.Second, time.Hour} {
			begin := time.Now()
			if !j.await(begin.Add(time.Hour)) || time.Since(begin) != want {
				t.Errorf("wait %d took %s", i, time.Since(begin))
			}
		}
	})
}

package chat

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

const (
	textEvent   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"
	finishEvent = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
)

// TestACallThatTimedOutIsRepeatedOnlyIfTheRouteSaysSo proves that a queued chat whose upstream was
// too slow is called once and fails with the key to set, because the upstream may charge for the
// call. With retry_timeouts, its next attempt completes it.
func TestACallThatTimedOutIsRepeatedOnlyIfTheRouteSaysSo(t *testing.T) {
	t.Parallel()
	wait := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, slow := range map[string]http.HandlerFunc{
		"no answer":       wait,
		"an idle stream":  func(w http.ResponseWriter, r *http.Request) { write(w, textEvent); wait(w, r) },
		"a silent stream": func(w http.ResponseWriter, r *http.Request) { write(w, ": thinking\n\n"); wait(w, r) },
		"too long":        repeat,
		"a proxy's 504":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) },
		"a proxy's long text": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, `{"error":{"message":"`+strings.Repeat("too slow ", 1<<10)+`"}}`)
		},
	} {
		for allowed, want := range map[bool]genbusv1.JobStatus{false: genbusv1.JobStatus_JOB_STATUS_FAILED, true: genbusv1.JobStatus_JOB_STATUS_COMPLETED} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if calls.Add(1) == 1 {
						slow(w, r)
						return
					}
					write(w, textEvent+finishEvent)
				}))
				t.Cleanup(up.Close)
				p := jobtest.NewProcess(t, brokertest.Single(t), jobtest.Config(t, up.URL, func(c *config.Config) {
					for i := range c.Routes {
						if r := &c.Routes[i]; r.Kind == config.KindChat {
							r.RetryTimeouts = allowed
							r.Timeouts.FirstByte, r.Timeouts.Idle = 300*time.Millisecond, 300*time.Millisecond
							r.Timeouts.Total = 3 * time.Second // all attempts have twice this time, with a wait of a second between them
						}
					}
				}))
				p.Start(t)
				item := chatItem()
				item.Stream = true
				if _, err := p.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
					t.Fatal(err)
				}
				j := heldChat(t, p, item, 1)
				jobtest.Shortly(t, "the chat ends", func() bool { return !hold.Waits(j.step()) })
				c := j.chat()
				if c.GetStatus() != want {
					t.Errorf("%s with %v", c.GetStatus(), c.GetError())
				}
				if !allowed && (calls.Load() != 1 || c.GetError().GetCode() != string(errcode.UpstreamTimeout) || !strings.Contains(c.GetError().GetMessage(), "set retry_timeouts: true on route "+config.SandboxChatRoute)) {
					t.Errorf("after %d calls: %v", calls.Load(), c.GetError())
				}
				if allowed && calls.Load() != 2 {
					t.Errorf("%d calls", calls.Load())
				}
			})
		}
	}
}

func write(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, events)
	_ = http.NewResponseController(w).Flush()
}

// repeat sends blocks until the caller leaves.
func repeat(w http.ResponseWriter, r *http.Request) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
			write(w, textEvent)
		}
	}
}

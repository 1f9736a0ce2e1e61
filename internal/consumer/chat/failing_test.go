package chat

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/task"
)

// TestFailingCallsAreReportedToOperators proves that a holder reports an upstream's temporary
// refusal, without the upstream's words, until a stream begins.
func TestFailingCallsAreReportedToOperators(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"application/json":  `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`,
		"text/event-stream": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := make(chan *genbusv1.HeldJob, 1)
			var j *job
			calls := 0 // one at a time
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = w.Write([]byte(`{"error":{"message":"hi was too much","code":"busy"}}`))
					return
				}
				told <- j.Details()
				w.Header().Set("Content-Type", name)
				_, _ = w.Write([]byte(answer))
			}))
			t.Cleanup(up.Close)
			p := jobtest.NewProcess(t, brokertest.Single(t), jobtest.Config(t, up.URL))
			p.Start(t)
			item := chatItem()
			item.Stream = name == "text/event-stream"
			if _, err := p.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
				t.Fatal(err)
			}
			j = heldChat(t, p, item, 1)
			if got := j.Details(); got.GetCallsFailed() != 0 || got.GetLastCallErrorAt() != nil {
				t.Errorf("before a call: %v", got)
			}
			if err := j.held.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			jobtest.Shortly(t, "the chat is answered", func() bool { return !hold.Waits(j.step()) })
			got := <-told
			if got.GetCallsFailed() == 0 || got.GetLastCallErrorAt() == nil || !strings.Contains(got.GetLastCallError(), "status 429") || strings.Contains(got.GetLastCallError(), "too much") {
				t.Errorf("after a refusal: %v", got)
			}
			if got := j.Details(); item.GetStream() && got.GetCallsFailed() != 0 {
				t.Errorf("after its stream began: %v", got)
			}
			if c := j.chat(); c.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("the chat is %s: %v", c.GetStatus(), c.GetError())
			}
		})
	}
}

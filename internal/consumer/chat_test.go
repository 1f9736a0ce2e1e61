package consumer

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

func TestQueuedChat(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	for _, stream := range []bool{false, true} {
		request := map[bool]string{false: "whole", true: "streamed"}[stream]
		id := publish(t, b, subject.Chat, request, chatRequest(request, "sandbox-chat", stream))
		events := follow(t, r.log, id)
		if got := phases(events); got != "queued in_progress completed" {
			t.Fatalf("%s: phases %s, %v", request, got, last(events).Job.GetError())
		}
		c, _ := last(events).Job.(*genbusv1.Chat)
		if !strings.Contains(string(c.GetReplyJson()), `"chat.completion"`) || c.GetUsage().GetTotalTokens() == 0 || c.GetAttempt() != 1 {
			t.Errorf("%s: %v", request, c)
		}
		if blocks := chunkBlocks(t, b, id); uint64(len(blocks)) != c.GetChunkCount() || stream != (len(blocks) > 0) {
			t.Errorf("%s: %d blocks are stored, the event says %d", request, len(blocks), c.GetChunkCount())
		}
		doneOnce(t, b, last(events))
	}
}

// chunkBlocks reads a chat's stored blocks, in order.
func chunkBlocks(t testing.TB, b *broker.Broker, id string) [][]byte {
	t.Helper()
	var out [][]byte
	for seq := uint64(1); ; {
		m, err := b.Next(t.Context(), b.Names().Chunks(), b.Names().Chunk("acme", id), seq)
		if err != nil {
			return out
		}
		chunk, err := publisher.DecodeChunk(m.Header, m.Data)
		if err != nil || chunk.GetIndex() != uint64(len(out)) {
			t.Fatalf("chunk at %d has index %d, want %d: %v", m.Seq, chunk.GetIndex(), len(out), err)
		}
		out = append(out, chunk.GetBlocks()...)
		seq = m.Seq + 1
	}
}

func TestChatOutcomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, model string
		stream      bool
		status      genbusv1.JobStatus
		code        string
		attempt     uint32
	}{
		{"refused for good", "sandbox-chat:status=400,code=invalid_request", false, genbusv1.JobStatus_JOB_STATUS_FAILED, "upstream_refused", 1},
		{"key refused", "sandbox-chat:status=401", true, genbusv1.JobStatus_JOB_STATUS_FAILED, "upstream_key_refused", 1},
		{"unpaid", "sandbox-chat:status=402", false, genbusv1.JobStatus_JOB_STATUS_FAILED, "upstream_quota", 1},
		{"rate limited, then answered", "sandbox-chat:status=429,times=2,retry_after=1,id=a", true, genbusv1.JobStatus_JOB_STATUS_COMPLETED, "", 1},
		{"cut off, then answered", "sandbox-chat:drop_after_chunks=3,times=1", true, genbusv1.JobStatus_JOB_STATUS_COMPLETED, "", 2},
		{"cut off twice", "sandbox-chat:drop_after_chunks=3,times=9", true, genbusv1.JobStatus_JOB_STATUS_FAILED, "", 2},
		{"ends early, twice", "sandbox-chat:no_done,no_finish", true, genbusv1.JobStatus_JOB_STATUS_FAILED, "stream_truncated", 2},
		{"no choice, then answered", "sandbox-chat:no_choices,times=1", false, genbusv1.JobStatus_JOB_STATUS_COMPLETED, "", 2},
		{"no choice in a stream, twice", "sandbox-chat:no_choices", true, genbusv1.JobStatus_JOB_STATUS_FAILED, "upstream_unavailable", 2},
		{"odd events", "sandbox-chat:odd_events", true, genbusv1.JobStatus_JOB_STATUS_COMPLETED, "", 1},
		{"strict about stream_options", "sandbox-chat:no_stream_options", true, genbusv1.JobStatus_JOB_STATUS_COMPLETED, "", 1},
		{"broken upstream", "sandbox-chat:status=500,times=9", false, genbusv1.JobStatus_JOB_STATUS_FAILED, "upstream_unavailable", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			up, b := newSandbox(t), brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, up.URL()))
			id := publish(t, b, subject.Chat, "one", chatRequest("one", row.model, row.stream))
			end := last(follow(t, r.log, id))
			c, _ := end.Job.(*genbusv1.Chat)
			if c.GetStatus() != row.status || c.GetAttempt() != row.attempt || row.code != "" && c.GetError().GetCode() != row.code {
				t.Errorf("ended %v after %d attempts: %v", c.GetStatus(), c.GetAttempt(), c.GetError())
			}
			doneOnce(t, b, end)
		})
	}
}

// TestAFinalFailureOfAChatIsNotRepeated proves that a chat is not called again if the same request
// would fail again.
func TestAFinalFailureOfAChatIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"a reply beyond the limit": respond(`{"choices":[{"index":0,"message":{"role":"assistant","content":"%s"}}]}`, strings.Repeat("x", 33<<20)),
		"a streamed reply beyond the limit": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			text := strings.Repeat("x", 1<<20)
			for range 33 {
				_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n", text)
			}
			_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
		},
		"a page that says no retry": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = fmt.Fprint(w, "<html><title>no</title></html>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				answer(w, r)
			}})
			b := brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, url))
			end := last(follow(t, r.log, publish(t, b, subject.Chat, "one", chatRequest("one", "sandbox-chat", strings.HasPrefix(name, "a streamed")))))
			if f := end.Job.GetError(); calls.Load() != 1 || f.GetCode() != "upstream_refused" || f.GetRetryable() {
				t.Errorf("%d calls, ended %v", calls.Load(), f)
			}
		})
	}
}

// TestARefusalThatIsAPageIsRepeated proves that a chat uses its next attempt after a 401 that a proxy
// may have sent, and then fails because of the key.
func TestARefusalThatIsAPageIsRepeated(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	url := scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		http.Error(w, "<html>sign in</html>", http.StatusUnauthorized)
	}})
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, url))
	end := last(follow(t, r.log, publish(t, b, subject.Chat, "one", chatRequest("one", "sandbox-chat", false))))
	if f := end.Job.GetError(); calls.Load() != 2 || f.GetCode() != "upstream_key_refused" || f.GetRetryable() {
		t.Errorf("%d calls, ended %v", calls.Load(), f)
	}
}

func TestCancelCutsTheCall(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	id := publish(t, b, subject.Chat, "one", chatRequest("one", "sandbox-chat:chunks=100000,chunk_interval_ms=5", true))
	end := cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)))
	doneOnce(t, b, end)
}

// TestACancelledChatWaitsForNoSlot proves that a cancelled chat is dropped at once, although all
// slots of its upstream are in use.
func TestACancelledChatWaitsForNoSlot(t *testing.T) {
	t.Parallel()
	up, b := newSlowUpstream(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.url, func(c *config.Config) {
		u := c.Upstreams[config.SandboxUpstream]
		u.MaxConcurrent = 1
		c.Upstreams[config.SandboxUpstream] = u
	}))
	running := publish(t, b, subject.Chat, "runs", chatRequest("runs", "sandbox-chat", true))
	follow(t, r.log, running, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	id := publish(t, b, subject.Chat, "waits", chatRequest("waits", "sandbox-chat", true))
	e := last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_QUEUED))
	shortly(t, "it is held", func() bool { return heldJob(r.holder, id) != nil })
	begin := time.Now()
	cancelJob(t, r.log, e)
	shortly(t, "it is let go of", func() bool { return heldJob(r.holder, id) == nil })
	if took := time.Since(begin); took > 20*time.Second { // without a wake-up it checks after 30 s
		t.Errorf("it was held for %s", took)
	}
	close(up.done)
	follow(t, r.log, running)
}

package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

func TestChatInline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.post("/v1/chat/completions", chatBody)
	v := a.json(t)
	if a.status != http.StatusOK || v["object"] != "chat.completion" || a.header.Get("Content-Length") == "" ||
		!strings.HasPrefix(a.header.Get("Genbus-Job-Id"), "chat_") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	s := w.open(w.request(http.MethodPost, "/v1/chat/completions", streamBody))
	if !strings.HasPrefix(s.res.Header.Get("Genbus-Job-Id"), "chat_") || s.res.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("headers %v", s.res.Header)
	}
	blocks := s.rest()
	if len(blocks) < 6 || blocks[len(blocks)-1].data != "[DONE]" || !strings.Contains(blocks[1].data, "chat.completion.chunk") {
		t.Errorf("blocks %v", blocks)
	}
}

// TestChatErrorsBeforeAndAfterTheFirstBlock: a status before it, one error block
// and no [DONE] after it.
func TestChatErrorsBeforeAndAfterTheFirstBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := func(model string) string { return strings.Replace(streamBody, "sandbox-chat", model, 1) }
	for _, model := range []string{"sandbox-chat:drop_after_chunks=2", "sandbox-chat:error_after_chunks=2"} {
		blocks := w.open(w.request(http.MethodPost, "/v1/chat/completions", body(model))).rest()
		last := blocks[len(blocks)-1].data
		if len(blocks) < 3 || !strings.HasPrefix(last, `{"error":{`) || slices.ContainsFunc(blocks, func(e event) bool { return e.data == "[DONE]" }) {
			t.Errorf("%s: %v", model, blocks)
		}
	}
	for _, want := range []struct {
		model  string
		status int
		code   string
	}{
		{"sandbox-chat:status=503", 502, "upstream_unavailable"},
		{"other", 404, "model_not_found"},
		// Last: the key has to wait from then on.
		{"sandbox-chat:status=429,retry_after=7", 429, "upstream_rate_limited"},
	} {
		for _, b := range []string{body(want.model), strings.Replace(chatBody, "sandbox-chat", want.model, 1)} {
			a := w.post("/v1/chat/completions", b)
			if a.status != want.status || a.header.Get("Genbus-Error-Code") != want.code || a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %v %s", b, a.status, a.header, a.body)
			}
			if want.status == 429 && a.header.Get("Retry-After") != "7" {
				t.Errorf("%s: Retry-After %q", b, a.header.Get("Retry-After"))
			}
		}
	}
}

func TestChatRespondAsync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.post("/v1/chat/completions", chatBody, "Prefer", "respond-async")
	id := a.header.Get("Genbus-Job-Id")
	if a.status != http.StatusAccepted || a.header.Get("Location") != "/genbus/v1/chats/"+id || a.header.Get("Preference-Applied") != "respond-async" {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	if v := a.json(t); v["id"] != id || v["status"] != "queued" || v["object"] != "chat.completion.job" {
		t.Errorf("body %s", a.body)
	}
	if got := w.get(a.header.Get("Location")); got.status != http.StatusOK {
		t.Errorf("its location: %d %s", got.status, got.body)
	}
}

// chatID is the id that a key gives to a chat of the default tenant: that of a
// repeated submission.
func (w *world) chatWith(key, body string) string {
	w.t.Helper()
	a := w.post("/v1/chat/completions", body, "Idempotency-Key", key, "Prefer", "respond-async")
	if a.status != http.StatusAccepted {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	return a.header.Get("Genbus-Job-Id")
}

func TestChatWithAKeyIsAQueuedJobThatIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k1", chatBody)
	answers := make(chan answer, 1)
	go func() { answers <- w.post("/v1/chat/completions", chatBody, "Idempotency-Key", "k1") }()
	w.endChat(w.startChat("default", id), replyJSON, 0)
	a := <-answers
	if a.status != http.StatusOK || a.body != replyJSON || a.header.Get("Genbus-Job-Id") != id {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a := w.post("/v1/chat/completions", chatBody, "Idempotency-Key", "k1"); a.body != replyJSON {
		t.Errorf("repeated: %d %s", a.status, a.body)
	}

	failed := w.chatWith("k2", chatBody)
	w.failChat(w.startChat("default", failed), failure(fault.UpstreamTimeout, "too slow"))
	a = w.post("/v1/chat/completions", chatBody, "Idempotency-Key", "k2")
	if a.status != http.StatusGatewayTimeout || a.errorCode(t) != "upstream_timeout" ||
		a.header.Get("X-Should-Retry") != "false" || a.header.Get("Genbus-Job-Id") != failed {
		t.Errorf("a failed job: %d %v %s", a.status, a.header, a.body)
	}
}

func TestChatStreamWithAKeyFollowsTheChunks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k1", streamBody)
	e := w.startChat("default", id)
	w.chunk(e, 0, block("one"), block("two"))
	s := w.open(w.request(http.MethodPost, "/v1/chat/completions", streamBody, "Idempotency-Key", "k1"))
	if s.res.Header.Get("Genbus-Job-Id") != id {
		t.Errorf("headers %v", s.res.Header)
	}
	for _, want := range []string{block("one"), block("two")} {
		if got := s.next(); got.data != want || got.id != "" || got.name != "" {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	w.chunk(e, 1, block("two"), block("three")) // a repeat and more
	if got := s.next(); got.data != block("three") {
		t.Errorf("got %v", got)
	}
	w.endChat(e, replyJSON, 3)
	if got := s.rest(); len(got) != 1 || got[0].data != "[DONE]" {
		t.Errorf("rest %v", got)
	}
}

func TestChatStreamWithAKeyEndsBadly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := func(key string) *stream {
		return w.open(w.request(http.MethodPost, "/v1/chat/completions", streamBody, "Idempotency-Key", key))
	}
	t.Run("the attempt is cut off and repeated", func(t *testing.T) {
		e := w.startChat("default", w.chatWith("torn", streamBody))
		w.chunk(e, 0, block("one"))
		s := open("torn")
		s.next()
		e = w.startChat("default", e.Job.GetId())
		w.chunk(e, 0, block("uno"))
		if got := s.rest(); len(got) != 1 || !strings.Contains(got[0].data, `"code":"stream_truncated"`) {
			t.Errorf("rest %v", got)
		}
	})
	t.Run("the job fails after blocks", func(t *testing.T) {
		e := w.startChat("default", w.chatWith("failed", streamBody))
		w.chunk(e, 0, block("one"))
		s := open("failed")
		s.next()
		w.failChat(e, failure(fault.UpstreamUnavailable, "gone"))
		if got := s.rest(); len(got) != 1 || !strings.Contains(got[0].data, `"code":"upstream_unavailable"`) {
			t.Errorf("rest %v", got)
		}
	})
	t.Run("the job fails before blocks", func(t *testing.T) {
		w.failChat(w.startChat("default", w.chatWith("early", streamBody)), failure(fault.UpstreamRefused, "no"))
		a := w.post("/v1/chat/completions", streamBody, "Idempotency-Key", "early")
		if a.status != http.StatusBadGateway || a.errorCode(t) != "upstream_refused" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("blocks are gone", func(t *testing.T) {
		e := w.startChat("default", w.chatWith("gap", streamBody))
		w.chunk(e, 0, block("one"))
		s := open("gap")
		s.next()
		w.endChat(e, replyJSON, 3)
		if got := s.rest(); len(got) != 1 || !strings.Contains(got[0].data, `"code":"stream_truncated"`) {
			t.Errorf("rest %v", got)
		}
	})
}

// TestChatStreamOfAJobWhoseChunksAreGone: the whole reply is sent as blocks.
func TestChatStreamOfAJobWhoseChunksAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endChat(w.startChat("default", w.chatWith("old", streamBody)), replyJSON, 12)
	got := w.open(w.request(http.MethodPost, "/v1/chat/completions", streamBody, "Idempotency-Key", "old")).rest()
	want := []string{
		`{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"one two","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"},"index":0}]},"finish_reason":"stop"}],"vendor":1}`,
		`{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"total_tokens":3}}`,
		"[DONE]",
	}
	for i, e := range got {
		if i >= len(want) || e.data != want[i] {
			t.Errorf("block %d is %s", i, e.data)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d blocks", len(got))
	}
}

// TestWaitingStreamIsKeptOpen: a queued chat may wait for long; pings come before
// the first block.
func TestWaitingStreamIsKeptOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.SSEPing = 20 * time.Millisecond })
	id := w.chatWith("k", streamBody)
	s := w.open(w.request(http.MethodPost, "/v1/chat/completions", streamBody, "Idempotency-Key", "k")) // opened by a ping
	e := w.startChat("default", id)
	w.chunk(e, 0, block("one"))
	w.endChat(e, replyJSON, 1)
	if got := s.rest(); len(got) != 2 || got[0].data != block("one") || got[1].data != "[DONE]" {
		t.Errorf("rest %v", got)
	}
}

func TestWaitersAreToldOfTheShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k", chatBody)
	answers := make(chan answer, 1)
	go func() { answers <- w.post("/v1/chat/completions", chatBody, "Idempotency-Key", "k") }()
	w.untilFollowed()
	w.api.Drain(fmt.Errorf("upgrade"))
	a := <-answers
	if a.status != http.StatusServiceUnavailable || a.errorCode(t) != "shutting_down" || a.header.Get("Genbus-Job-Id") != id ||
		!strings.Contains(a.body, "goes on") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

// untilFollowed waits until a repeated request has been admitted: only then does
// it wait for the job.
func (w *world) untilFollowed() {
	w.t.Helper()
	w.await("the second admission", func() bool { return w.admissions(subject.Chat) >= 2 })
}

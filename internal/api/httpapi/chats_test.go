package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

func TestChatInline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.Post("/v1/chat/completions", apitest.ChatBody)
	v := a.JSON(t)
	if a.Status != http.StatusOK || v["object"] != "chat.completion" || a.Header.Get("Content-Length") == "" ||
		!strings.HasPrefix(a.Header.Get("Genbus-Job-Id"), "chat_") {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody))
	if !strings.HasPrefix(s.Res.Header.Get("Genbus-Job-Id"), "chat_") || s.Res.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("headers %v", s.Res.Header)
	}
	blocks := s.Rest()
	if len(blocks) < 6 || blocks[len(blocks)-1].Data != "[DONE]" || !strings.Contains(blocks[1].Data, "chat.completion.chunk") {
		t.Errorf("blocks %v", blocks)
	}
}

// TestChatErrorsBeforeAndAfterTheFirstBlock checks that an error is a status before the first
// block, and one error block without [DONE] after it.
func TestChatErrorsBeforeAndAfterTheFirstBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := func(model string) string { return strings.Replace(apitest.StreamBody, "sandbox-chat", model, 1) }
	for _, model := range []string{"sandbox-chat:drop_after_chunks=2", "sandbox-chat:error_after_chunks=2"} {
		blocks := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", body(model))).Rest()
		last := blocks[len(blocks)-1].Data
		if len(blocks) < 3 || !strings.HasPrefix(last, `{"error":{`) || slices.ContainsFunc(blocks, func(e apitest.Event) bool { return e.Data == "[DONE]" }) {
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
		// Last, because the upstream key must wait afterwards.
		{"sandbox-chat:status=429,retry_after=7", 429, "upstream_rate_limited"},
	} {
		for _, b := range []string{body(want.model), strings.Replace(apitest.ChatBody, "sandbox-chat", want.model, 1)} {
			a := w.Post("/v1/chat/completions", b)
			if a.Status != want.status || a.Header.Get("Genbus-Error-Code") != want.code || a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %v %s", b, a.Status, a.Header, a.Body)
			}
			if want.status == 429 && a.Header.Get("Retry-After") != "7" {
				t.Errorf("%s: Retry-After %q", b, a.Header.Get("Retry-After"))
			}
		}
	}
}

func TestChatRespondAsync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.Post("/v1/chat/completions", apitest.ChatBody, "Prefer", "respond-async")
	id := a.Header.Get("Genbus-Job-Id")
	if a.Status != http.StatusAccepted || a.Header.Get("Location") != "/genbus/v1/chats/"+id || a.Header.Get("Preference-Applied") != "respond-async" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if v := a.JSON(t); v["id"] != id || v["status"] != "queued" || v["object"] != "chat.completion.job" {
		t.Errorf("body %s", a.Body)
	}
	if got := w.Get(a.Header.Get("Location")); got.Status != http.StatusOK {
		t.Errorf("its location: %d %s", got.Status, got.Body)
	}
}

// chatWith queues a chat with an idempotency key and returns its id.
func (w *world) chatWith(key, body string) string {
	w.T.Helper()
	a := w.Post("/v1/chat/completions", body, "Idempotency-Key", key, "Prefer", "respond-async")
	if a.Status != http.StatusAccepted {
		w.T.Fatalf("%d %s", a.Status, a.Body)
	}
	return a.Header.Get("Genbus-Job-Id")
}

func TestChatWithAKeyIsAQueuedJobThatIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k1", apitest.ChatBody)
	answers := make(chan apitest.Answer, 1)
	go func() { answers <- w.Post("/v1/chat/completions", apitest.ChatBody, "Idempotency-Key", "k1") }()
	w.EndChat(w.StartChat("default", id), apitest.ReplyJSON, 0)
	a := <-answers
	if a.Status != http.StatusOK || a.Body != apitest.ReplyJSON || a.Header.Get("Genbus-Job-Id") != id {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if a := w.Post("/v1/chat/completions", apitest.ChatBody, "Idempotency-Key", "k1"); a.Body != apitest.ReplyJSON {
		t.Errorf("repeated: %d %s", a.Status, a.Body)
	}

	failed := w.chatWith("k2", apitest.ChatBody)
	w.FailChat(w.StartChat("default", failed), failure(errcode.UpstreamTimeout, "too slow"))
	a = w.Post("/v1/chat/completions", apitest.ChatBody, "Idempotency-Key", "k2")
	if a.Status != http.StatusGatewayTimeout || a.ErrorCode(t) != "upstream_timeout" ||
		a.Header.Get("X-Should-Retry") != "false" || a.Header.Get("Genbus-Job-Id") != failed {
		t.Errorf("a failed job: %d %v %s", a.Status, a.Header, a.Body)
	}
}

func TestChatStreamWithAKeyFollowsTheChunks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k1", apitest.StreamBody)
	e := w.StartChat("default", id)
	w.Chunk(e, 0, apitest.Block("one"), apitest.Block("two"))
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", "k1"))
	if s.Res.Header.Get("Genbus-Job-Id") != id {
		t.Errorf("headers %v", s.Res.Header)
	}
	for _, want := range []string{apitest.Block("one"), apitest.Block("two")} {
		if got := s.Next(); got.Data != want || got.ID != "" || got.Name != "" {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	w.Chunk(e, 1, apitest.Block("two"), apitest.Block("three")) // a repeat and more
	if got := s.Next(); got.Data != apitest.Block("three") {
		t.Errorf("got %v", got)
	}
	w.EndChat(e, apitest.ReplyJSON, 3)
	if got := s.Rest(); len(got) != 1 || got[0].Data != "[DONE]" {
		t.Errorf("rest %v", got)
	}
}

func TestChatStreamWithAKeyEndsBadly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := func(key string) *apitest.Stream {
		return w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", key))
	}
	t.Run("the attempt is cut off and repeated", func(t *testing.T) {
		e := w.StartChat("default", w.chatWith("torn", apitest.StreamBody))
		w.Chunk(e, 0, apitest.Block("one"))
		s := open("torn")
		s.Next()
		e = w.StartChat("default", e.Job.GetId())
		w.Chunk(e, 0, apitest.Block("uno"))
		if got := s.Rest(); len(got) != 1 || !strings.Contains(got[0].Data, `"code":"stream_truncated"`) {
			t.Errorf("rest %v", got)
		}
	})
	t.Run("the job fails after blocks", func(t *testing.T) {
		e := w.StartChat("default", w.chatWith("failed", apitest.StreamBody))
		w.Chunk(e, 0, apitest.Block("one"))
		s := open("failed")
		s.Next()
		w.FailChat(e, failure(errcode.UpstreamUnavailable, "gone"))
		if got := s.Rest(); len(got) != 1 || !strings.Contains(got[0].Data, `"code":"upstream_unavailable"`) {
			t.Errorf("rest %v", got)
		}
	})
	t.Run("the job fails before blocks", func(t *testing.T) {
		w.FailChat(w.StartChat("default", w.chatWith("early", apitest.StreamBody)), failure(errcode.UpstreamRefused, "no"))
		a := w.Post("/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", "early")
		if a.Status != http.StatusBadGateway || a.ErrorCode(t) != "upstream_refused" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
	t.Run("blocks are gone", func(t *testing.T) {
		e := w.StartChat("default", w.chatWith("gap", apitest.StreamBody))
		w.Chunk(e, 0, apitest.Block("one"))
		s := open("gap")
		s.Next()
		w.EndChat(e, apitest.ReplyJSON, 3)
		if got := s.Rest(); len(got) != 1 || !strings.Contains(got[0].Data, `"code":"stream_truncated"`) {
			t.Errorf("rest %v", got)
		}
	})
}

// TestChatStreamOfAJobWhoseChunksAreGone checks that the stored reply is sent as blocks if the
// chunks are gone.
func TestChatStreamOfAJobWhoseChunksAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.EndChat(w.StartChat("default", w.chatWith("old", apitest.StreamBody)), apitest.ReplyJSON, 12)
	got := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", "old")).Rest()
	want := []string{
		`{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"one two","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"},"index":0}]},"finish_reason":"stop"}],"vendor":1}`,
		`{"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"total_tokens":3}}`,
		"[DONE]",
	}
	for i, e := range got {
		if i >= len(want) || e.Data != want[i] {
			t.Errorf("block %d is %s", i, e.Data)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d blocks", len(got))
	}
}

// TestWaitingStreamIsKeptOpen checks that pings keep the stream of a queued chat open before the
// first block.
func TestWaitingStreamIsKeptOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.SSEPing = 20 * time.Millisecond })
	id := w.chatWith("k", apitest.StreamBody)
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody, "Idempotency-Key", "k")) // opened by a ping
	e := w.StartChat("default", id)
	w.Chunk(e, 0, apitest.Block("one"))
	w.EndChat(e, apitest.ReplyJSON, 1)
	if got := s.Rest(); len(got) != 2 || got[0].Data != apitest.Block("one") || got[1].Data != "[DONE]" {
		t.Errorf("rest %v", got)
	}
}

// twoUpstreams returns a configuration change that gives the chat route two upstreams at the host,
// and short pings.
func twoUpstreams(host *apitest.Host) func(*config.Config) {
	return func(c *config.Config) {
		apitest.UpstreamAt(host)(c)
		c.HTTP.SSEPing = 20 * time.Millisecond
		c.Upstreams["spare"] = c.Upstreams["sandbox"]
		for i := range c.Routes {
			if r := &c.Routes[i]; r.Kind == config.KindChat {
				r.Upstream, r.Upstreams = "", []config.Target{{Name: "sandbox"}, {Name: "spare"}}
			}
		}
	}
}

// TestAStreamIsKeptOpenWhileTheModelThinks checks that pings keep an inline stream open before the
// first block, that genbus can still fail over then, and that a failure becomes the stream's error.
func TestAStreamIsKeptOpenWhileTheModelThinks(t *testing.T) {
	t.Parallel()
	answers := make(chan http.HandlerFunc)
	host := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server then notices when its caller leaves
		select {
		case answer := <-answers:
			answer(w, r)
		case <-r.Context().Done():
		}
	})
	w := newWorld(t, twoUpstreams(host))
	refuse := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	open := func() *apitest.Stream {
		s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody)) // opened by a ping
		if !strings.HasPrefix(s.Res.Header.Get("Genbus-Job-Id"), "chat_") {
			t.Errorf("headers %v", s.Res.Header)
		}
		return s
	}
	s := open()
	answers <- refuse
	answers <- func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", apitest.Block("one"))
	}
	if got := s.Rest(); len(got) != 2 || got[0].Data != apitest.Block("one") || got[1].Data != "[DONE]" {
		t.Errorf("after a failover: %v", got)
	}
	s = open()
	answers <- refuse
	answers <- refuse
	if got := s.Rest(); len(got) != 1 || !strings.Contains(got[0].Data, `"code":"upstream_unavailable"`) {
		t.Errorf("after a failure: %v", got)
	}
}

// TestASlowUpstreamIsNotCalledAgain checks that neither genbus nor an SDK repeats an inline chat
// that timed out, because the upstream may charge for it.
func TestASlowUpstreamIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	host := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server then notices when its caller leaves
		if strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
			_, _ = io.WriteString(w, ": thinking\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusGatewayTimeout)
	})
	w := newWorld(t, twoUpstreams(host), func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindChat {
				c.Routes[i].Timeouts.Idle = 100 * time.Millisecond
			}
		}
	})
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody))
	if got := s.Rest(); len(got) != 1 || !strings.Contains(got[0].Data, `"code":"upstream_timeout"`) {
		t.Errorf("rest %v", got)
	}
	a := w.Post("/v1/chat/completions", apitest.ChatBody)
	if a.Status != http.StatusGatewayTimeout || a.ErrorCode(t) != "upstream_timeout" || a.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if n := len(host.Requests()); n != 2 {
		t.Errorf("%d calls of two chats", n)
	}
}

func TestWaitersAreNotifiedOfTheShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.chatWith("k", apitest.ChatBody)
	answers := make(chan apitest.Answer, 1)
	go func() { answers <- w.Post("/v1/chat/completions", apitest.ChatBody, "Idempotency-Key", "k") }()
	w.untilFollowed()
	w.Drain(fmt.Errorf("upgrade"))
	a := <-answers
	if a.Status != http.StatusServiceUnavailable || a.ErrorCode(t) != "shutting_down" || a.Header.Get("Genbus-Job-Id") != id ||
		!strings.Contains(a.Body, "continues") {
		t.Errorf("%d %v %s", a.Status, a.Header, a.Body)
	}
}

// untilFollowed waits until a repeated request was admitted and waits for the job.
func (w *world) untilFollowed() {
	w.T.Helper()
	w.Await("the second admission", func() bool { return w.admissions(subject.Chat) >= 2 })
}

// TestChatList checks that chats are listed by the paths of both APIs, without their replies.
func TestChatList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older, newer := w.SubmitChat(""), w.SubmitChat("")
	w.EndChat(w.StartChat("default", older), apitest.ReplyJSON, 0)
	ids := func(query string) (out []string) {
		t.Helper()
		data, _ := w.Get("/v1/chat/completions" + query).JSON(t)["data"].([]any)
		for _, d := range data {
			chat, _ := d.(map[string]any)
			if out = append(out, fmt.Sprint(chat["id"])); chat["response"] != nil || chat["object"] != "chat.completion.job" {
				t.Errorf("%s: %v", query, chat)
			}
		}
		return out
	}
	w.Await("both in the list", func() bool { return slices.Equal(ids(""), []string{older, newer}) })
	for query, want := range map[string][]string{
		"?order=desc": {newer, older}, "?limit=1": {older}, "?after=" + older: {newer}, "?order=desc&after=" + older: nil,
	} {
		if got := ids(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, code := range map[string]string{"?order=new": "invalid_request", "?after=chat_none": "chat_not_found"} {
		if a := w.Get("/v1/chat/completions" + query); a.ErrorCode(t) != code {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	a := w.Get("/genbus/v1/chats?page_size=1")
	if !strings.Contains(a.Body, newer) || strings.Contains(a.Body, older) || strings.Contains(a.Body, "execution") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := w.Get("/genbus/v1/chats?status=JOB_STATUS_COMPLETED"); !strings.Contains(a.Body, older) || strings.Contains(a.Body, "reply_json") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

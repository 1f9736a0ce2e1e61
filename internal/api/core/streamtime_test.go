package core_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

func shortStreams(c *config.Config) { c.Limits.StreamTime = time.Second }

const streamEnded = ": stream_ended: come back with Last-Event-ID\n"

// TestStreamsOfEventsEnd checks that streams end without an error after limits.stream_time, and
// resume after the last event.
func TestStreamsOfEventsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortStreams)
	video := w.CreateVideo()
	chat := w.Post("/v1/chat/completions", apitest.TalkBody("hi"), "Prefer", "respond-async").Header.Get("Genbus-Job-Id")
	for name, path := range map[string]string{
		"video": "/v1/video/generations/" + video + "/events", "own video": "/genbus/v1/videos/" + video + "/events",
		"chat": "/genbus/v1/chats/" + chat + "/events",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := w.Get(path)
			for first.Status == http.StatusOK && !strings.Contains(first.Body, "event: ") { // the log may take longer than a stream
				if !strings.HasSuffix(first.Body, streamEnded) {
					t.Fatalf("without an event: %s", first.Body)
				}
				first = w.Get(path)
			}
			if first.Status != http.StatusOK || strings.Count(first.Body, "event: ") != 1 || !strings.HasSuffix(first.Body, streamEnded) {
				t.Errorf("%d %s", first.Status, first.Body)
			}
			id := ""
			for line := range strings.Lines(first.Body) {
				if rest, ok := strings.CutPrefix(line, "id: "); ok {
					id = strings.TrimSpace(rest)
				}
			}
			again := w.Get(path, "Last-Event-ID", id)
			if again.Status != http.StatusOK || strings.Contains(again.Body, "event: ") || !strings.Contains(again.Body, "stream_ended") {
				t.Errorf("after event %q: %d %s", id, again.Status, again.Body)
			}
		})
	}
}

// TestWatchesEnd checks the code with which watches end after limits.stream_time.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortStreams)
	conn := w.Dial()
	video := w.CreateVideo()
	chat := w.Post("/v1/chat/completions", apitest.TalkBody("hi"), "Prefer", "respond-async").Header.Get("Genbus-Job-Id")
	var err error
	for events := 0; events == 0; { // the log may take longer than a watch
		watch := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchVideoTaskResponse]](t)(
			genbusv1grpc.NewVideoServiceClient(conn).WatchVideoTask(t.Context(), &genbusv1.WatchVideoTaskRequest{Id: video}))
		m, failed := watch.Recv()
		for ; failed == nil; m, failed = watch.Recv() {
			if events++; events > 1 || m.GetEvent().GetVersion() != 1 {
				t.Errorf("event %d: %v", events, m)
			}
		}
		apitest.CheckStatus(t, failed, codes.Unavailable, errcode.StreamEnded)
	}
	follow := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse]](t)(
		genbusv1grpc.NewChatServiceClient(conn).WatchChatCompletion(t.Context(), &genbusv1.WatchChatCompletionRequest{Id: chat}))
	for err = nil; err == nil; {
		_, err = follow.Recv()
	}
	apitest.CheckStatus(t, err, codes.Unavailable, errcode.StreamEnded)
}

// TestChatsThatAreWaitedForEnd checks that a chat cut off by limits.stream_time ends with an error,
// and that the same request attaches afterwards.
func TestChatsThatAreWaitedForEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortStreams)
	waited := w.Post("/v1/chat/completions", apitest.TalkBody("hi"), "Idempotency-Key", "waited")
	if waited.Status != http.StatusServiceUnavailable || waited.ErrorCode(t) != string(errcode.StreamEnded) {
		t.Errorf("%d %s", waited.Status, waited.Body)
	}
	const streamed = `{"stream":true,"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`
	a := w.Post("/v1/chat/completions", streamed, "Idempotency-Key", "streamed")
	if strings.Contains(a.Body, "[DONE]") || !strings.Contains(a.Body, string(errcode.StreamEnded)) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	e := w.StartChat("default", apitest.JobID(subject.Chat, "default", "streamed"))
	w.Chunk(e, 0, `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}`)
	w.EndChat(e, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`, 1)
	a = w.Post("/v1/chat/completions", streamed, "Idempotency-Key", "streamed")
	for strings.Contains(a.Body, string(errcode.StreamEnded)) { // the log took longer than a stream
		a = w.Post("/v1/chat/completions", streamed, "Idempotency-Key", "streamed")
	}
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "hello") || !strings.Contains(a.Body, "[DONE]") {
		t.Errorf("the same request again: %d %s", a.Status, a.Body)
	}
}

// TestInlineChatsAreNoFollowers checks that limits.stream_time does not bound inline chats.
func TestInlineChatsAreNoFollowers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortStreams)
	begin, last := time.Now(), ""
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions",
		`{"stream":true,"model":"sandbox-chat:chunks=200,chunk_interval_ms=10","messages":[{"role":"user","content":"hi"}]}`))
	for {
		e, err := s.Events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = string(e.Data)
	}
	if took := time.Since(begin); last != "[DONE]" || took < 1500*time.Millisecond {
		t.Errorf("it ended after %s with %q", took, last)
	}
}

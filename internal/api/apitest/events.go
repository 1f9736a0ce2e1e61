package apitest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/genbus/genbus/internal/upstream/sse"
)

// Stream is an open SSE answer.
type Stream struct {
	t      testing.TB
	Res    *http.Response
	Events *sse.Reader
}

// Event is a copy of an SSE event.
type Event struct{ ID, Name, Data string }

// Open opens a stream of server-sent events.
func (w *World) Open(r *http.Request) *Stream {
	w.T.Helper()
	res, err := w.Client.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		w.T.Fatalf("%d %v %s", res.StatusCode, res.Header, body)
	}
	return &Stream{t: w.T, Res: res, Events: sse.NewReader(res.Body, 0)}
}

// Next returns the next event. It fails the test at the end of the stream.
func (s *Stream) Next() Event {
	s.t.Helper()
	e, err := s.Events.Next()
	if err != nil {
		s.t.Fatalf("next event: %v", err)
	}
	return Event{string(e.ID), e.Type, string(e.Data)}
}

// End fails the test unless the stream has ended.
func (s *Stream) End() {
	s.t.Helper()
	if e, err := s.Events.Next(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("the stream goes on with %q %q, %v", e.Type, e.Data, err)
	}
}

// Rest returns the remaining events of the stream.
func (s *Stream) Rest() []Event {
	s.t.Helper()
	var out []Event
	for {
		e, err := s.Events.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, Event{string(e.ID), e.Type, string(e.Data)})
	}
}

// ChatBody requests a whole reply.
const ChatBody = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`

// StreamBody requests a stream.
const StreamBody = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}],"stream":true}`

// SubmitChat enqueues a streamed chat and returns its ID.
func (w *World) SubmitChat(key string, headers ...string) string {
	w.T.Helper()
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	a := w.Post("/v1/chat/completions", StreamBody, append(headers, "Prefer", "wait=1, Respond-Async")...)
	if a.Status != http.StatusAccepted {
		w.T.Fatalf("submit: %d %s", a.Status, a.Body)
	}
	return a.Header.Get("Genbus-Job-Id")
}

// Block returns a stream block with a text.
func Block(text string) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

// ReplyJSON is a whole reply.
const ReplyJSON = `{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"total_tokens":3},"vendor":1}`

// Endless is a model whose stream does not fit into the buffers between the upstream and the
// client.
const Endless = "sandbox-chat-fast:chunks=1000000"

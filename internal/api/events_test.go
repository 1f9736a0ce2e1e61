package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream/sse"
)

// stream is an open SSE answer.
type stream struct {
	t      testing.TB
	res    *http.Response
	events *sse.Reader
}

// event is one event with copied bytes.
type event struct{ id, name, data string }

func (w *world) open(r *http.Request) *stream {
	w.t.Helper()
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("%d %v %s", res.StatusCode, res.Header, body)
	}
	return &stream{t: w.t, res: res, events: sse.NewReader(res.Body, 0)}
}

func (w *world) events(path string, headers ...string) *stream {
	w.t.Helper()
	return w.open(w.request(http.MethodGet, path, "", headers...))
}

func (s *stream) next() event {
	s.t.Helper()
	e, err := s.events.Next()
	if err != nil {
		s.t.Fatalf("next event: %v", err)
	}
	return event{string(e.ID), e.Type, string(e.Data)}
}

func (s *stream) end() {
	s.t.Helper()
	if e, err := s.events.Next(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("the stream goes on with %q %q, %v", e.Type, e.Data, err)
	}
}

func (s *stream) rest() []event {
	s.t.Helper()
	var out []event
	for {
		e, err := s.events.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, event{string(e.ID), e.Type, string(e.Data)})
	}
}

func names(events []event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.id+" "+e.name)
	}
	return out
}

func TestVideoEventsLiveAndResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.createVideo()
	live := w.events("/v1/video/generations/" + id + "/events")
	if live.res.Header.Get("Genbus-Job-Id") != id || live.res.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", live.res.Header)
	}
	if e := live.next(); e.id != "1" || e.name != "genbus.video.task.queued.v1" {
		t.Errorf("first %v", e)
	}
	running := w.startVideo("default", id)
	for _, want := range []string{"2 genbus.video.task.queued.v1", "3 genbus.video.task.queued.v1", "4 genbus.video.task.in_progress.v1"} {
		if e := live.next(); e.id+" "+e.name != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
	w.endVideo(running)
	last := live.next()
	live.end()
	var data struct {
		ID   string `json:"id"`
		Task struct {
			Status string           `json:"status"`
			Videos []map[string]any `json:"videos"`
		} `json:"task"`
	}
	if err := json.Unmarshal([]byte(last.data), &data); err != nil || last.id != "5" || data.Task.Status != "completed" || len(data.Task.Videos) != 1 {
		t.Errorf("last %v: %v", last, err)
	}
	if strings.Contains(last.data, "execution") || !strings.HasPrefix(data.ID, id+".5.") {
		t.Errorf("data %s", last.data)
	}

	resumed := w.events("/genbus/v1/videos/"+id+"/events", "Last-Event-ID", "3").rest()
	want := []string{"4 genbus.video.task.in_progress.v1", "5 genbus.video.task.completed.v1"}
	if !slices.Equal(names(resumed), want) || resumed[1].data != last.data {
		t.Errorf("resumed %v", names(resumed))
	}
	byQuery := w.events("/genbus/v1/videos/" + id + "/events?after_version=4").rest()
	if !slices.Equal(names(byQuery), want[1:]) {
		t.Errorf("by query %v", names(byQuery))
	}
	if a := w.get("/v1/video/generations/"+id+"/events", "Last-Event-ID", "5"); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("after the end: %d %q", a.status, a.body)
	}
	expired := w.events("/v1/video/generations/"+id+"/events", "Last-Event-ID", "9").rest()
	if !slices.Equal(names(expired), []string{" genbus.resume_expired.v1", "5 genbus.video.task.completed.v1"}) ||
		!strings.Contains(expired[0].data, `"code":"resume_expired"`) {
		t.Errorf("expired %v", expired)
	}
	if early := w.events("/v1/video/generations/" + id + "/events?after_version=9").rest(); !strings.Contains(early[0].data, "never had version 9;") {
		t.Errorf("after_version=9: %+v", early[0])
	}
	if a := w.get("/v1/video/generations/"+id+"/events", "Last-Event-ID", "x"); a.status != http.StatusBadRequest {
		t.Errorf("an id that is none: %d %s", a.status, a.body)
	}
	if a := w.do(http.MethodHead, "/v1/video/generations/"+id+"/events", ""); a.status != http.StatusOK || a.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
}

// TestEventNamesAreTheCloudEventsTypes holds the names against what is published.
func TestEventNamesAreTheCloudEventsTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.createVideo()
	chatID := w.submitChat("")
	cancelled := w.post("/genbus/v1/chats/"+chatID+"/cancel", "{}")
	if cancelled.status != http.StatusOK {
		t.Fatal(cancelled.body)
	}
	for path, e := range map[string]subject.TaskName{
		"/genbus/v1/videos/" + id + "/events":    {Kind: subject.Video, Tenant: "default", ID: id},
		"/genbus/v1/chats/" + chatID + "/events": {Kind: subject.Chat, Tenant: "default", ID: chatID},
	} {
		s := w.events(path)
		history, err := w.log.History(t.Context(), e, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range history {
			m, err := w.enc.Event(t.Context(), entry.Event)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.next(); got.name != m.Header.Get(subject.HeaderCEType) {
				t.Errorf("%s, published as %s", got.name, m.Header.Get(subject.HeaderCEType))
			}
		}
	}
}

const chatBody = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`
const streamBody = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}],"stream":true}`

// submitChat enqueues a streamed chat and gives its id.
func (w *world) submitChat(key string, headers ...string) string {
	w.t.Helper()
	if key != "" {
		headers = append(headers, "Idempotency-Key", key)
	}
	a := w.post("/v1/chat/completions", streamBody, append(headers, "Prefer", "wait=1, Respond-Async")...)
	if a.status != http.StatusAccepted {
		w.t.Fatalf("submit: %d %s", a.status, a.body)
	}
	return a.header.Get("Genbus-Job-Id")
}

func block(text string) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

const replyJSON = `{"id":"c","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"total_tokens":3},"vendor":1}`

func TestChatEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submitChat("")
	live := w.events("/genbus/v1/chats/" + id + "/events")
	first := live.next()
	if first.name != "genbus.chat.queued.v1" || first.id == "" {
		t.Errorf("first %v", first)
	}
	e := w.startChat("default", id)
	started := live.next()
	if started.name != "genbus.chat.in_progress.v1" {
		t.Errorf("started %v", started)
	}
	w.chunk(e, 0, block("one"))
	chunk := live.next()
	if chunk.name != "genbus.chat.chunk.v1" || !strings.Contains(chunk.data, `"blocks":[`+block("one")+`]`) {
		t.Errorf("chunk %v", chunk)
	}
	w.chunk(e, 1, block("two"))
	w.endChat(e, replyJSON, 2)
	rest := live.rest()
	if len(rest) != 2 || rest[0].name != "genbus.chat.chunk.v1" || rest[1].name != "genbus.chat.completed.v1" {
		t.Fatalf("rest %v", names(rest))
	}
	resumed := w.events("/genbus/v1/chats/"+id+"/events", "Last-Event-ID", chunk.id).rest()
	if !slices.Equal(names(resumed), names(rest)) {
		t.Errorf("resumed %v, want %v", names(resumed), names(rest))
	}
	if a := w.get("/genbus/v1/chats/"+id+"/events", "Last-Event-ID", "nonsense"); a.status != http.StatusBadRequest || a.errorCode(t) != "invalid_request" {
		t.Errorf("a token that is none: %d %s", a.status, a.body)
	}
	a := w.get("/genbus/v1/chats/" + id)
	completion, _ := a.json(t)["completion"].(map[string]any)
	if a.status != http.StatusOK || completion["id"] != "c" {
		t.Errorf("by id: %d %s", a.status, a.body)
	}
}

func TestStreamsPingAndEndAtShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.SSEPing = 20 * time.Millisecond })
	id := w.createVideo()
	res, err := w.client.Do(w.request(http.MethodGet, "/v1/video/generations/"+id+"/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got strings.Builder
	buf := make([]byte, 1)
	for strings.Count(got.String(), ": ping\n\n") < 3 {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
	// On a loaded machine a ping may come before the first event.
	events := got.String()
	for strings.HasPrefix(events, ": ping\n\n") {
		events = strings.TrimPrefix(events, ": ping\n\n")
	}
	if !strings.HasPrefix(events, "id: 1\nevent: genbus.video.task.queued.v1\ndata: ") {
		t.Errorf("a ping stands inside an event: %q", got.String())
	}
	w.api.Drain(nil)
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(rest), "event: genbus.error.v1\ndata: {") || !strings.Contains(string(rest), `"code":"shutting_down"`) {
		t.Errorf("at shutdown: %q, %v", rest, err)
	}
	a := w.get("/v1/models")
	if a.status != http.StatusServiceUnavailable || a.errorCode(t) != "shutting_down" || a.header.Get("Retry-After") == "" {
		t.Errorf("after it: %d %v %s", a.status, a.header, a.body)
	}
	if a := w.get("/healthz"); a.status != http.StatusOK {
		t.Errorf("healthz %d", a.status)
	}
}

func failure(code fault.Code, message string) *genbusv1.TaskError {
	return fault.New(code, "%s", message).TaskError()
}

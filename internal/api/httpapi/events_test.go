package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog/joblogtest"
	"github.com/genbus/genbus/internal/subject"
)

func (w *world) events(path string, headers ...string) *apitest.Stream {
	w.T.Helper()
	return w.Open(w.Request(http.MethodGet, path, "", headers...))
}

func names(events []apitest.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.ID+" "+e.Name)
	}
	return out
}

func TestVideoEventsLiveAndResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateVideo()
	live := w.events("/v1/video/generations/" + id + "/events")
	if live.Res.Header.Get("Genbus-Job-Id") != id || live.Res.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", live.Res.Header)
	}
	if e := live.Next(); e.ID != "1" || e.Name != "genbus.video.task.queued.v1" {
		t.Errorf("first %v", e)
	}
	running := w.StartVideo("default", id)
	for _, want := range []string{"2 genbus.video.task.queued.v1", "3 genbus.video.task.queued.v1", "4 genbus.video.task.in_progress.v1"} {
		if e := live.Next(); e.ID+" "+e.Name != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
	w.EndVideo(running)
	last := live.Next()
	live.End()
	var data struct {
		ID   string `json:"id"`
		Task struct {
			Status string           `json:"status"`
			Videos []map[string]any `json:"videos"`
		} `json:"task"`
	}
	if err := json.Unmarshal([]byte(last.Data), &data); err != nil || last.ID != "5" || data.Task.Status != "completed" || len(data.Task.Videos) != 1 {
		t.Errorf("last %v: %v", last, err)
	}
	if strings.Contains(last.Data, "execution") || !strings.HasPrefix(data.ID, id+".5.") {
		t.Errorf("data %s", last.Data)
	}

	resumed := w.events("/genbus/v1/videos/"+id+"/events", "Last-Event-ID", "3").Rest()
	want := []string{"4 genbus.video.task.in_progress.v1", "5 genbus.video.task.completed.v1"}
	if !slices.Equal(names(resumed), want) || resumed[1].Data != last.Data {
		t.Errorf("resumed %v", names(resumed))
	}
	byQuery := w.events("/genbus/v1/videos/" + id + "/events?after_version=4").Rest()
	if !slices.Equal(names(byQuery), want[1:]) {
		t.Errorf("by query %v", names(byQuery))
	}
	if a := w.Get("/v1/video/generations/"+id+"/events", "Last-Event-ID", "5"); a.Status != http.StatusNoContent || a.Body != "" {
		t.Errorf("after the end: %d %q", a.Status, a.Body)
	}
	expired := w.events("/v1/video/generations/"+id+"/events", "Last-Event-ID", "9").Rest()
	if !slices.Equal(names(expired), []string{" genbus.resume_expired.v1", "5 genbus.video.task.completed.v1"}) ||
		!strings.Contains(expired[0].Data, `"code":"resume_expired"`) {
		t.Errorf("expired %v", expired)
	}
	if early := w.events("/v1/video/generations/" + id + "/events?after_version=9").Rest(); !strings.Contains(early[0].Data, "never had version 9;") {
		t.Errorf("after_version=9: %+v", early[0])
	}
	if a := w.Get("/v1/video/generations/"+id+"/events", "Last-Event-ID", "x"); a.Status != http.StatusBadRequest {
		t.Errorf("an id that is none: %d %s", a.Status, a.Body)
	}
	if a := w.Do(http.MethodHead, "/v1/video/generations/"+id+"/events", ""); a.Status != http.StatusOK || a.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: %d %v", a.Status, a.Header)
	}
}

// TestEventNamesAreTheCloudEventsTypes checks the names of SSE events against the published
// CloudEvents types.
func TestEventNamesAreTheCloudEventsTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateVideo()
	chatID := w.SubmitChat("")
	cancelled := w.Post("/genbus/v1/chats/"+chatID+"/cancel", "{}")
	if cancelled.Status != http.StatusOK {
		t.Fatal(cancelled.Body)
	}
	for path, e := range map[string]subject.JobName{
		"/genbus/v1/videos/" + id + "/events":    {Kind: subject.Video, Tenant: "default", ID: id},
		"/genbus/v1/chats/" + chatID + "/events": {Kind: subject.Chat, Tenant: "default", ID: chatID},
	} {
		s := w.events(path)
		history, err := joblogtest.History(t.Context(), w.Broker, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range history {
			m, err := w.Encoder.Event(t.Context(), entry.Event)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Next(); got.Name != m.Header.Get(subject.HeaderCEType) {
				t.Errorf("%s, published as %s", got.Name, m.Header.Get(subject.HeaderCEType))
			}
		}
	}
}

func TestChatEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.SubmitChat("")
	live := w.events("/genbus/v1/chats/" + id + "/events")
	first := live.Next()
	if first.Name != "genbus.chat.queued.v1" || first.ID == "" {
		t.Errorf("first %v", first)
	}
	e := w.StartChat("default", id)
	started := live.Next()
	if started.Name != "genbus.chat.in_progress.v1" {
		t.Errorf("started %v", started)
	}
	w.Chunk(e, 0, apitest.Block("one"))
	chunk := live.Next()
	if chunk.Name != "genbus.chat.chunk.v1" || !strings.Contains(chunk.Data, `"blocks":[`+apitest.Block("one")+`]`) {
		t.Errorf("chunk %v", chunk)
	}
	w.Chunk(e, 1, apitest.Block("two"))
	w.EndChat(e, apitest.ReplyJSON, 2)
	rest := live.Rest()
	if len(rest) != 2 || rest[0].Name != "genbus.chat.chunk.v1" || rest[1].Name != "genbus.chat.completed.v1" {
		t.Fatalf("rest %v", names(rest))
	}
	resumed := w.events("/genbus/v1/chats/"+id+"/events", "Last-Event-ID", chunk.ID).Rest()
	if !slices.Equal(names(resumed), names(rest)) {
		t.Errorf("resumed %v, want %v", names(resumed), names(rest))
	}
	if a := w.Get("/genbus/v1/chats/"+id+"/events", "Last-Event-ID", "nonsense"); a.Status != http.StatusBadRequest || a.ErrorCode(t) != "invalid_request" {
		t.Errorf("a token that is none: %d %s", a.Status, a.Body)
	}
	a := w.Get("/genbus/v1/chats/" + id)
	completion, _ := a.JSON(t)["completion"].(map[string]any)
	if a.Status != http.StatusOK || completion["id"] != "c" {
		t.Errorf("by id: %d %s", a.Status, a.Body)
	}
}

func TestStreamsPingAndEndAtShutdown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.SSEPing = 20 * time.Millisecond })
	id := w.CreateVideo()
	res, err := w.Client.Do(w.Request(http.MethodGet, "/v1/video/generations/"+id+"/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	const ping = ": ping\n"
	var got strings.Builder
	buf := make([]byte, 1)
	for after := ""; strings.Count(after, ping) < 3; _, after, _ = strings.Cut(got.String(), "id: 1\n") {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
	// On a loaded machine pings may come before the first event.
	events := got.String()
	for strings.HasPrefix(events, ping) {
		events = strings.TrimPrefix(events, ping)
	}
	if !strings.HasPrefix(events, "id: 1\nevent: genbus.video.task.queued.v1\ndata: ") {
		t.Errorf("a ping stands inside an event: %q", got.String())
	}
	w.Drain(nil)
	rest, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(rest), "event: genbus.error.v1\ndata: {") || !strings.Contains(string(rest), `"code":"shutting_down"`) {
		t.Errorf("at shutdown: %q, %v", rest, err)
	}
	a := w.Get("/v1/models")
	if a.Status != http.StatusServiceUnavailable || a.ErrorCode(t) != "shutting_down" || a.Header.Get("Retry-After") == "" {
		t.Errorf("after it: %d %v %s", a.Status, a.Header, a.Body)
	}
	if a := w.Get("/healthz"); a.Status != http.StatusOK {
		t.Errorf("healthz %d", a.Status)
	}
}

func failure(code errcode.Code, message string) *genbusv1.TaskError {
	return errcode.New(code, "%s", message).TaskError()
}

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// poll reads a task in a protocol that answers {"status":".."}.
func poll(ctx context.Context, ep *Endpoint, ref TaskRef) (VideoState, error) {
	return ep.Poll(ctx, ref, PollCall{
		Path: "/v1/tasks/" + ref.ID,
		Read: func(_ *http.Response, body []byte) (VideoState, bool, error) {
			var answer struct{ Status string }
			err := json.Unmarshal(body, &answer)
			return VideoState{Progression: ProgressionOf(answer.Status), Status: answer.Status}, answer.Status != "", err
		},
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		body    string
		want    string // the task's status, "" for an error
		message string
	}{
		"a state":      {200, `{"status":"queued"}`, "queued", ""},
		"another 2xx":  {202, `{"status":"done"}`, "done", ""},
		"nothing":      {200, `{"code":"success"}`, "", "the answer says nothing about the task: ok"},
		"a page":       {200, `<html><title>Hi</title>`, "", "the answer says nothing about the task: an HTML page Hi"},
		"not yet":      {400, `{"code":"task_not_exist","message":"task_not_exist"}`, "", "task_not_exist"},
		"unknown":      {404, `{"status":"failed","message":"no such task"}`, "", "no such task"},
		"out of order": {503, `{"status":"failed"}`, "", "JSON that is not an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/v1/tasks/t" || r.Header.Get("Idempotency-Key") != "" {
					t.Errorf("request = %s %s %v", r.Method, r.URL, r.Header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			state, err := poll(t.Context(), ep, TaskRef{ID: "t"})
			if state.Status != c.want || (err == nil) != (c.want != "") {
				t.Fatalf("Poll = %+v, %v", state, err)
			}
			if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.Op != OpPoll || e.HTTPStatus != c.status || e.Message != c.message) {
				t.Errorf("error = %+v", err)
			}
		})
	}
}

func TestPollBrokenAnswer(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int64, c *net.TCPConn) {
		send(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"+`{"status":"failed"}`)
	})
	_, err := poll(t.Context(), endpointOf(t, server.url, TransportOptions{}), TaskRef{ID: "t"})
	if e, ok := errors.AsType[*Error](err); !ok || e.Reported || e.Scope != ScopeUpstream {
		t.Errorf("Poll error = %v, want an inferred one", err)
	}
}

func TestPollWithoutAnID(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
	if _, err := poll(t.Context(), ep, TaskRef{Ticket: "k"}); err == nil || AsError(OpPoll, err).Written {
		t.Errorf("Poll error = %v", err)
	}
}

// TestPollsShareNothing checks that concurrent polls do not see each other's answers in reused
// memory.
func TestPollsShareNothing(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		word := strings.TrimPrefix(r.URL.Path, "/v1/tasks/")
		_, _ = io.WriteString(w, `{"status":"`+word+`","x":"`+strings.Repeat(word, len(word)*2000)+`"}`)
	})
	var wg sync.WaitGroup
	for _, word := range []string{"a", "bb", "ccccccccccccc", "dddd", "e", "ffffffffffffffff"} {
		wg.Go(func() {
			for range 5 {
				if state, err := poll(t.Context(), ep, TaskRef{ID: word}); err != nil || state.Status != word {
					t.Errorf("Poll of %s = %+v, %v", word, state, err)
				}
			}
		})
	}
	wg.Wait()
}

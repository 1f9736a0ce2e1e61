package jimeng

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	testNow    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	testRef    = upstream.TaskRef{ID: "7392616336519610409", Ticket: "jimeng_t2v_v30"}
	testCreate = upstream.VideoCreate{JobID: "video_1", Body: []byte(`{"req_key":"jimeng_t2v_v30","prompt":"a cat"}`)}
)

// corpusCase is one file of testdata: an answer and what it means.
type corpusCase struct {
	Call      string          `json:"call"`
	Status    int             `json:"status"`
	Body      json.RawMessage `json:"body"`
	Want      json.RawMessage `json:"want"`
	WantError *struct {
		Code    string `json:"code"`
		Said    bool   `json:"said"`
		Message string `json:"message"` // not compared when empty
	} `json:"want_error"`
}

type wantSubmission struct {
	Verdict string     `json:"verdict"`
	ID      string     `json:"id"`
	State   *wantState `json:"state"`
	Error   *wantError `json:"error"`
}

type wantState struct {
	Progression string      `json:"progression"`
	Status      string      `json:"status"`
	Progress    int         `json:"progress"`
	Videos      []wantVideo `json:"videos"`
	Error       *wantError  `json:"error"`
}

type wantVideo struct {
	URL       string `json:"url"`
	ExpiresAt int64  `json:"expires_at"`
}

type wantError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Final   bool   `json:"final"`
}

var progressionWords = map[upstream.Progression]string{
	upstream.Running: "running", upstream.Queued: "queued", upstream.InProgress: "in_progress",
	upstream.Completed: "completed", upstream.Failed: "failed",
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	for name, c := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.Status)
				_, _ = w.Write(c.Body)
			})
			if c.Call == "create" {
				checkSubmission(t, c, client.Create(t.Context(), testCreate))
				return
			}
			state, err := client.Poll(t.Context(), testRef)
			checkPoll(t, c, state, err)
		})
	}
}

func checkSubmission(t *testing.T, c corpusCase, sub upstream.Submission) {
	t.Helper()
	var want wantSubmission
	unmarshal(t, c.Want, &want)
	got := wantSubmission{Verdict: sub.Verdict.String(), ID: sub.UpstreamID, Error: shortError(sub.Err)}
	if sub.Verdict == upstream.Accepted {
		got.State = shortState(sub.State)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
	if (sub.Ticket == testRef.Ticket) != (sub.Verdict == upstream.Accepted) {
		t.Errorf("ticket %q beside verdict %v", sub.Ticket, sub.Verdict)
	}
}

func checkPoll(t *testing.T, c corpusCase, state upstream.VideoState, err error) {
	t.Helper()
	if want := c.WantError; want != nil {
		e, ok := errors.AsType[*upstream.Error](err)
		if !ok {
			t.Fatalf("Poll = %+v, %v, want an *upstream.Error", state, err)
		}
		if e.Code != want.Code || e.Said != want.Said || e.HTTPStatus != c.Status || e.Message == "" || e.Op != upstream.OpPoll {
			t.Errorf("Poll error = %+v, want code %q, said %v, status %d", e, want.Code, want.Said, c.Status)
		}
		if want.Message != "" && e.Message != want.Message {
			t.Errorf("message = %q, want %q", e.Message, want.Message)
		}
		return
	}
	if err != nil {
		t.Fatalf("Poll: %v", err)
	}
	var want wantState
	unmarshal(t, c.Want, &want)
	if diff := cmp.Diff(&want, shortState(state)); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if e := state.Err; e != nil && (e.HTTPStatus != c.Status || !e.Said || !e.Written) {
		t.Errorf("the task's error = %+v", e)
	}
}

func shortState(s upstream.VideoState) *wantState {
	short := &wantState{Progression: progressionWords[s.Progression], Status: s.Status, Progress: s.Progress, Error: shortError(s.Err)}
	for _, v := range s.Videos {
		short.Videos = append(short.Videos, wantVideo{URL: v.URL, ExpiresAt: v.ExpiresAt.Unix()})
	}
	return short
}

func shortError(e *upstream.Error) *wantError {
	if e == nil {
		return nil
	}
	return &wantError{Code: e.Code, Message: e.Message, Final: e.Final}
}

func unmarshal(t testing.TB, b []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
}

func corpus(t testing.TB) map[string]corpusCase {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	cases := make(map[string]corpusCase)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c corpusCase
		unmarshal(t, b, &c)
		cases[strings.TrimSuffix(filepath.Base(file), ".json")] = c
	}
	return cases
}

// serve starts a real server and gives a client of it, at a fixed time.
func serve(t testing.TB, opts upstream.Options, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	ep := &upstream.Endpoint{
		Name: "test", BaseURL: server.URL, Key: "sk-test-0123456789",
		Client: upstream.NewHTTPClient(upstream.TransportOptions{}),
	}
	if err := ep.Validate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	t.Cleanup(ep.Client.CloseIdleConnections)
	client := New(ep, opts)
	client.now = func() time.Time { return testNow }
	return client
}

package primary

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

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// corpusCase is one file of testdata: an answer and what it means. A file with
// words is a case for each, which stands where the file has %WORD%.
type corpusCase struct {
	Call      string          `json:"call"`
	Status    int             `json:"status"`
	Words     []string        `json:"words"`
	Body      json.RawMessage `json:"body"`
	Want      json.RawMessage `json:"want"`
	WantError *struct {
		Code      string `json:"code"`
		Said      bool   `json:"said"`
		RequestID string `json:"request_id"`
	} `json:"want_error"`
}

type wantSubmission struct {
	Verdict string     `json:"verdict"`
	ID      string     `json:"id"`
	State   *wantState `json:"state"`
	Error   *wantError `json:"error"`
}

type wantState struct {
	Progression string          `json:"progression"`
	Status      string          `json:"status"`
	Progress    int             `json:"progress"`
	Videos      []wantVideo     `json:"videos"`
	Metadata    json.RawMessage `json:"metadata"`
	Usage       json.RawMessage `json:"usage"`
	Error       *wantError      `json:"error"`
}

type wantVideo struct {
	URL       string  `json:"url"`
	Format    string  `json:"format"`
	Duration  float64 `json:"duration"`
	Width     int     `json:"width"`
	Height    int     `json:"height"`
	ExpiresAt int64   `json:"expires_at"`
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
			client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.Status)
				_, _ = w.Write(c.Body)
			})
			if c.Call == "create" {
				checkSubmission(t, c, client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: []byte(`{}`)}))
				return
			}
			state, err := client.Poll(t.Context(), upstream.TaskRef{ID: "task_1"})
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
	if diff := cmp.Diff(compact(t, want), compact(t, got)); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
}

func checkPoll(t *testing.T, c corpusCase, state upstream.VideoState, err error) {
	t.Helper()
	if c.WantError != nil {
		e, ok := errors.AsType[*upstream.Error](err)
		if !ok {
			t.Fatalf("Poll error = %v, want an *upstream.Error", err)
		}
		if e.Code != c.WantError.Code || e.Said != c.WantError.Said || e.RequestID != c.WantError.RequestID || e.HTTPStatus != c.Status || e.Message == "" {
			t.Errorf("Poll error = %+v, want %+v with status %d", e, *c.WantError, c.Status)
		}
		return
	}
	if err != nil {
		t.Fatalf("Poll: %v", err)
	}
	var want wantState
	unmarshal(t, c.Want, &want)
	if diff := cmp.Diff(compact(t, &want), compact(t, shortState(state))); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func shortState(s upstream.VideoState) *wantState {
	short := &wantState{
		Progression: progressionWords[s.Progression], Status: s.Status, Progress: s.Progress,
		Metadata: s.Metadata, Usage: s.Usage, Error: shortError(s.Err),
	}
	for _, v := range s.Videos {
		w := wantVideo{URL: v.URL, Format: v.Format, Duration: v.Duration, Width: v.Width, Height: v.Height}
		if !v.ExpiresAt.IsZero() {
			w.ExpiresAt = v.ExpiresAt.Unix()
		}
		short.Videos = append(short.Videos, w)
	}
	return short
}

func shortError(e *upstream.Error) *wantError {
	if e == nil {
		return nil
	}
	return &wantError{Code: e.Code, Message: e.Message, Final: e.Final}
}

// compact makes two values comparable whatever white space their raw JSON has.
func compact(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func unmarshal(t testing.TB, b []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatal(err)
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
		addCases(t, cases, strings.TrimSuffix(filepath.Base(file), ".json"), b)
	}
	return cases
}

func addCases(t testing.TB, cases map[string]corpusCase, name string, file []byte) {
	t.Helper()
	var c corpusCase
	unmarshal(t, file, &c)
	if c.Words == nil {
		cases[name] = c
	}
	for _, word := range c.Words {
		var one corpusCase
		unmarshal(t, bytes.ReplaceAll(file, []byte("%WORD%"), []byte(word)), &one)
		cases[name+"/"+word] = one
	}
}

// serve starts a real server and gives a client of it.
func serve(t testing.TB, handler http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	client := clientOf(t, server.URL, upstream.TransportOptions{})
	t.Cleanup(server.Close)
	return client, server
}

// clientOf gives a client whose connections are closed with the test.
func clientOf(t testing.TB, baseURL string, opts upstream.TransportOptions) *Client {
	t.Helper()
	ep := &upstream.Endpoint{Name: "test", BaseURL: baseURL, Key: "sk-test-0123456789", Client: upstream.NewHTTPClient(opts)}
	if err := ep.Validate(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ep.Client.CloseIdleConnections)
	return New(ep, Options{})
}

package upstreamtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream"
)

// Case is a testdata file: an answer and its expected result.
type Case struct {
	// Call is "create" or "poll".
	Call   string `json:"call"`
	Status int    `json:"status"`
	// Words, if set, makes the file yield one case per word. The word replaces %WORD% in the file.
	Words []string `json:"words"`
	// Body is sent unchanged.
	Body json.RawMessage `json:"body"`
	// Want is the expected submission, or the expected state of the task.
	Want json.RawMessage `json:"want"`
	// WantError is the expected error of a poll, or nil.
	WantError *WantError `json:"want_error"`
}

// WantError is the expected content of a poll's error, apart from the HTTP status.
type WantError struct {
	Code      string `json:"code"`
	Reported  bool   `json:"said"`
	RequestID string `json:"request_id"`
	// Message is not compared if it is empty.
	Message string `json:"message"`
}

type submission struct {
	Verdict string       `json:"verdict"`
	ID      string       `json:"id"`
	Ticket  string       `json:"ticket"`
	State   *state       `json:"state"`
	Error   *createError `json:"error"`
}

type state struct {
	Progression string          `json:"progression"`
	Unknown     bool            `json:"unknown"`
	Status      string          `json:"status"`
	Progress    int             `json:"progress"`
	Videos      []video         `json:"videos"`
	Metadata    json.RawMessage `json:"metadata"`
	Usage       json.RawMessage `json:"usage"`
	Error       *failure        `json:"error"`
}

// video is an upstream.VideoFile with its expiry in Unix seconds, or 0 for none.
type video struct {
	URL       string  `json:"url"`
	Format    string  `json:"format"`
	Duration  float64 `json:"duration"`
	Width     int     `json:"width"`
	Height    int     `json:"height"`
	ExpiresAt int64   `json:"expires_at"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Final   bool   `json:"final"`
}

type createError struct {
	failure
	Scope string `json:"scope"`
}

var progressions = map[upstream.Progression]string{
	upstream.Running: "running", upstream.Queued: "queued", upstream.InProgress: "in_progress",
	upstream.Completed: "completed", upstream.Failed: "failed",
}

// Corpus reads testdata/*.json. A case is named after its file, with a slash and the word appended
// if the file has Words.
func Corpus(t testing.TB) map[string]Case {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	cases := make(map[string]Case)
	for _, path := range files {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		c := unmarshal[Case](t, file)
		if c.Words == nil {
			cases[name] = c
		}
		for _, word := range c.Words {
			cases[name+"/"+word] = unmarshal[Case](t, bytes.ReplaceAll(file, []byte("%WORD%"), []byte(word)))
		}
	}
	return cases
}

// CheckCorpus serves every answer of the corpus, both plain and compressed, and checks the client's
// result.
func CheckCorpus(t *testing.T, s Subject) {
	t.Helper()
	for name, c := range Corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t, s, "", string(c.Body))
		})
		t.Run(name+"/gzip", func(t *testing.T) {
			t.Parallel()
			c.check(t, s, "gzip", Gzip(t, string(c.Body)))
		})
	}
}

// Gzip returns text compressed with gzip.
func Gzip(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (c Case) check(t *testing.T, s Subject, encoding, body string) {
	t.Helper()
	client := s.serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		w.WriteHeader(c.Status)
		_, _ = io.WriteString(w, body)
	})
	switch c.Call {
	case "create":
		c.checkSubmission(t, client.Create(t.Context(), s.Create))
	case "poll":
		state, err := client.Poll(t.Context(), s.Ref)
		c.checkPoll(t, state, err)
	default:
		t.Fatalf("call %q", c.Call)
	}
}

func (c Case) checkSubmission(t *testing.T, sub upstream.Submission) {
	t.Helper()
	got := submission{Verdict: sub.Verdict.String(), ID: sub.UpstreamID, Ticket: sub.Ticket}
	if sub.Verdict == upstream.Accepted {
		got.State = shortState(sub.State)
	}
	if e := sub.Err; e != nil {
		got.Error = &createError{*shortError(e), e.Scope.String()}
	}
	if diff := cmp.Diff(compact(t, unmarshal[submission](t, c.Want)), compact(t, got)); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
}

func (c Case) checkPoll(t *testing.T, got upstream.VideoState, err error) {
	t.Helper()
	if c.WantError != nil {
		c.checkPollError(t, err)
		return
	}
	if err != nil {
		t.Fatalf("Poll: %v", err)
	}
	if diff := cmp.Diff(compact(t, unmarshal[state](t, c.Want)), compact(t, shortState(got))); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if e := got.Err; e != nil && (e.Op != upstream.OpPoll || e.HTTPStatus != c.Status || !e.Reported || !e.Written) {
		t.Errorf("the task's error = %+v", e)
	}
}

func (c Case) checkPollError(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		t.Fatalf("Poll error = %v, want an *upstream.Error", err)
	}
	if e.Op != upstream.OpPoll || e.HTTPStatus != c.Status || e.Message == "" {
		t.Errorf("Poll error = %+v does not fit the answer", e)
	}
	got := WantError{Code: e.Code, Reported: e.Reported, RequestID: e.RequestID}
	if c.WantError.Message != "" {
		got.Message = e.Message
	}
	if diff := cmp.Diff(*c.WantError, got); diff != "" {
		t.Errorf("Poll error (-want +got):\n%s", diff)
	}
}

func shortState(s upstream.VideoState) *state {
	short := &state{
		Progression: progressions[s.Progression], Unknown: s.Unknown, Status: s.Status, Progress: s.Progress,
		Metadata: s.Metadata, Usage: s.Usage, Error: shortError(s.Err),
	}
	for _, v := range s.Videos {
		w := video{URL: v.URL, Format: v.Format, Duration: v.Duration, Width: v.Width, Height: v.Height}
		if !v.ExpiresAt.IsZero() {
			w.ExpiresAt = v.ExpiresAt.Unix()
		}
		short.Videos = append(short.Videos, w)
	}
	return short
}

func shortError(e *upstream.Error) *failure {
	if e == nil {
		return nil
	}
	return &failure{Code: e.Code, Message: e.Message, Final: e.Final}
}

// compact formats a value so that white space in its raw JSON does not matter.
func compact(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func unmarshal[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

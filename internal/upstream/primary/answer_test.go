package primary

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// FuzzAnswer checks for any answer that only a status word makes a state terminal, and that only a
// terminal state has results or an error.
func FuzzAnswer(f *testing.F) {
	for _, c := range upstreamtest.Corpus(f) {
		f.Add([]byte(c.Body))
	}
	f.Add([]byte(`{"status":"done","videos":["data:,"],"data":{"data":{"data":{}}}}`))
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := lax.Decode[answer](body)
		if err != nil {
			return
		}
		_ = a.taskID()
		if state, ok := a.state(resp); ok {
			upstreamtest.CheckState(t, state, upstream.ProgressionOf(state.Status))
		}
	})
}

func TestListIsBounded(t *testing.T) {
	t.Parallel()
	body := []byte(`{"status":"done","videos":[`)
	for range 200 {
		body = append(body, `"https://cdn.example.com/v.mp4",`...)
	}
	a, err := lax.Decode[answer](append(body, `1],"progress":5}`...))
	if err != nil {
		t.Fatal(err)
	}
	state, _ := a.state(&http.Response{Header: http.Header{}})
	if len(state.Videos) != lax.MaxItems || state.Progress != 5 {
		t.Errorf("%d videos, progress %d", len(state.Videos), state.Progress)
	}
}

// TestCreatePollingURL checks that an answer without an ID is accepted if its polling_url names the
// task on the same host, and otherwise is unknown.
func TestCreatePollingURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://{host}/api/v1/videos/vid-1":        "vid-1",
		"http://{host}/api/v1/videos/vid-1/?x=1#y": "vid-1",
		"/v1/videos/a%2Fb":                         "a/b",
		"vid-1":                                    "vid-1",
		"http://other.example.com/videos/1":        "",
		"https://evil.example.com/{host}/1":        "",
		"//other.example.com/videos/1":             "",
		"http://{host}":                            "",
		"http://{host}/":                           "",
		"http://{host}/v1/video/generations":       "",
		"http://{host}/v1/video/generations/?id=1": "",
		"http://{host}/videos/%zz":                 "",
		"mailto:someone":                           "",
		":":                                        "",
		"":                                         "",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				url := strings.ReplaceAll(url, "{host}", r.Host)
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"status":"pending","polling_url":"`+url+`"}`)
			})
			sub := client.Create(t.Context(), aCreate)
			verdict := upstream.Accepted
			if want == "" {
				verdict = upstream.Unknown
			}
			if sub.Verdict != verdict || sub.UpstreamID != want {
				t.Errorf("%v with id %q, want %v with id %q", sub.Verdict, sub.UpstreamID, verdict, want)
			}
		})
	}
}

var benchAnswers = map[string]string{
	"flat":      "poll_documented_example_error_code_0",
	"enveloped": "poll_enveloped_in_progress",
	"success":   "poll_enveloped_success",
}

func BenchmarkDecode(b *testing.B) {
	cases := upstreamtest.Corpus(b)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	for name, file := range benchAnswers {
		b.Run(name, func(b *testing.B) {
			body := compactBody(b, cases[file].Body)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				a, err := lax.Decode[answer](body)
				if err != nil {
					b.Fatal(err)
				}
				if _, ok := a.state(resp); !ok {
					b.Fatal("no state")
				}
			}
		})
	}
}

// BenchmarkPoll measures a poll over loopback, including the server's part.
func BenchmarkPoll(b *testing.B) {
	body := compactBody(b, upstreamtest.Corpus(b)["poll_enveloped_in_progress"].Body)
	client := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Poll(b.Context(), upstream.TaskRef{ID: "task_FXEwd8OtmsSNzihjZxE7ADCdBgYGtVUC"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGet is the lower bound for BenchmarkPoll: net/http alone.
func BenchmarkGet(b *testing.B) {
	body := compactBody(b, upstreamtest.Corpus(b)["poll_enveloped_in_progress"].Body)
	client := serve(b, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, client.ep.BaseURL, nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.ep.Transport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

func compactBody(b *testing.B, raw json.RawMessage) []byte {
	b.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		b.Fatal(err)
	}
	body, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// TestReasonBehindAGateway checks that the vendor's reason is found if the gateway's reason is only
// a word such as SUCCEED.
func TestReasonBehindAGateway(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"code":"success","message":"","data":{"task_id":"t","status":"FAILURE","fail_reason":"SUCCEED","data":{"code":0,"message":"SUCCEED","data":{"task_id":"k","task_status":"failed","task_status_msg":"risk control"}}}}`,
		`{"code":"success","data":{"task_id":"t","status":"FAILURE","fail_reason":" success ","data":{"task_status":"failed","task_status_msg":"risk control"}}}`,
		`{"task_id":"t","status":"failed","fail_reason":"risk control","message":"ok"}`,
	} {
		a, err := lax.Decode[answer]([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		state, ok := a.state(&http.Response{Header: http.Header{}})
		if !ok || state.Err == nil || state.Err.Message != "risk control" {
			t.Errorf("%s: %+v", body, state.Err)
		}
	}
}

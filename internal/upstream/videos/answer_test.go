package videos

import (
	"encoding/json"
	"net/http"
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
	body := []byte(`{"status":"done","output":[`)
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

var benchAnswers = map[string]string{
	"in_progress": "poll_documented_in_progress",
	"completed":   "poll_program_kling_completed",
	"enveloped":   "poll_enveloped_completed",
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

// TestStateHasSizeAndSeconds checks that a state of any progression includes the video's size and
// duration.
func TestStateHasSizeAndSeconds(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][2]string{
		`{"id":"v","status":"queued","size":"720x1280","seconds":"4"}`:                      {"720x1280", "4"},
		`{"id":"v","status":"in_progress","seconds":5.5}`:                                   {"", "5.5"},
		`{"id":"v","status":"queued","width":1280,"height":720,"duration":8}`:               {"1280x720", "8"},
		`{"code":"success","data":{"task_id":"v","status":"queued","size":"16:9"}}`:         {"16:9", ""},
		`{"id":"v","status":"queued","size":["720x1280"],"seconds":{"value":4},"width":-1}`: {"", ""},
	} {
		a, err := lax.Decode[answer]([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if state, ok := a.state(&http.Response{Header: http.Header{}}); !ok || state.Size != want[0] || state.Seconds != want[1] {
			t.Errorf("%s: size %q, seconds %q", body, state.Size, state.Seconds)
		}
	}
}

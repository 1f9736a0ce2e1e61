package kling

import (
	"encoding/json"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// FuzzAnswer checks what must hold for every answer, however odd: a terminal
// state comes from a status word alone, and only it carries results or an error.
func FuzzAnswer(f *testing.F) {
	for _, c := range upstreamtest.Corpus(f) {
		f.Add([]byte(c.Body))
	}
	f.Add([]byte("{\"code\":0,\"data\":{\"task_status\":\"failed\",\"final_unit_deduction\":\"\xff\",\"task_status_msg\":\"\xff\"}}"))
	f.Add([]byte(`{"code":"SUCCESS","data":{"status":"done","result_url":"data:,","data":{"data":{}}}}`))
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := lax.Decode[answer](body)
		if err != nil {
			return
		}
		_ = a.taskID()
		state, ok := a.state(resp)
		if !ok {
			return
		}
		if a.Code.form() == refusal {
			t.Errorf("a refusal says %+v", state)
		}
		checkState(t, state)
	})
}

func checkState(t *testing.T, s upstream.VideoState) {
	t.Helper()
	if (s.Err != nil) != (s.Progression == upstream.Failed) {
		t.Errorf("progression %v with error %v", s.Progression, s.Err)
	}
	if s.Err != nil && (s.Err.Message == "" || len(s.Err.Message) > 2048 || !utf8.ValidString(s.Err.Message)) {
		t.Errorf("bad message %q", s.Err.Message)
	}
	if (len(s.Videos) > 0) != (s.Progression == upstream.Completed) {
		t.Errorf("progression %v with %d videos", s.Progression, len(s.Videos))
	}
	said := upstream.ProgressionOf(s.Status)
	if said != s.Progression && (said != upstream.Completed || s.Progression != upstream.Failed) {
		t.Errorf("status %q stands for %v", s.Status, s.Progression)
	}
	for _, v := range s.Videos {
		if !upstream.IsResultURL(v.URL) || v.Duration < 0 {
			t.Errorf("bad video %+v", v)
		}
	}
	if s.Progress < -1 || s.Progress > 100 || len(s.Videos) > lax.MaxItems {
		t.Errorf("progress %d, %d videos", s.Progress, len(s.Videos))
	}
	if s.Usage != nil && (s.Usage[0] != '{' || !json.Valid(s.Usage) || !utf8.Valid(s.Usage)) {
		t.Errorf("not a JSON object: %q", s.Usage)
	}
}

func BenchmarkDecode(b *testing.B) {
	cases := upstreamtest.Corpus(b)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
	for name, file := range map[string]string{
		"processing": "poll_processing", "succeed": "poll_succeed", "gateway": "poll_gateway_success",
	} {
		b.Run(name, func(b *testing.B) {
			body := cases[file].Body
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

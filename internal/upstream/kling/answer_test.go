package kling

import (
	"net/http"
	"testing"
	"unicode/utf8"

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
		upstreamtest.CheckState(t, state, upstream.ProgressionOf(state.Status))
		if !utf8.Valid(state.Usage) {
			t.Errorf("usage %q", state.Usage)
		}
	})
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

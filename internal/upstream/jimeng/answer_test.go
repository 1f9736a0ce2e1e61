package jimeng

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// FuzzAnswer checks what must hold for every answer, however odd: only a failed
// task has an error, only a completed one has results, and limits, refused
// signatures and server errors never fail a task.
func FuzzAnswer(f *testing.F) {
	for _, c := range upstreamtest.Corpus(f) {
		f.Add(c.Status, []byte(c.Body))
	}
	client := &client{ep: &upstream.Endpoint{Name: "test"}, now: func() time.Time { return testNow }}
	f.Fuzz(func(t *testing.T, status int, raw []byte) {
		a, err := lax.Decode[answer](raw)
		if err != nil {
			return
		}
		resp := &http.Response{StatusCode: status, Header: http.Header{}}
		if sub, e := client.accepted(resp, raw); e == nil && sub.State.Progression > upstream.InProgress {
			t.Errorf("a create begins with %+v", sub.State)
		}
		state, ok := client.state(a, resp, testRef.ID)
		if !ok {
			return
		}
		if status/100 != 2 && (status != http.StatusBadRequest || state.Progression != upstream.Failed) {
			t.Errorf("status %d gives %+v", status, state)
		}
		checkState(t, state)
	})
}

func checkState(t *testing.T, s upstream.VideoState) {
	t.Helper()
	if (s.Err != nil) != (s.Progression == upstream.Failed) {
		t.Errorf("progression %v with error %v", s.Progression, s.Err)
	}
	if e := s.Err; e != nil && (e.Message == "" || len(e.Message) > 2048 || !utf8.ValidString(e.Message) || len(e.Code) > 256 || aboutTheCall[e.Code] && s.Status == "") {
		t.Errorf("bad error %+v", e)
	}
	if (len(s.Videos) > 0) != (s.Progression == upstream.Completed) {
		t.Errorf("progression %v with %d videos", s.Progression, len(s.Videos))
	}
	for _, v := range s.Videos {
		if !upstream.IsResultURL(v.URL) || !v.ExpiresAt.Equal(testNow.Add(urlLifetime)) {
			t.Errorf("bad video %+v", v)
		}
	}
	if s.Progress < -1 || s.Progress > 100 || len(s.Status) > 256 {
		t.Errorf("progress %d, status of %d bytes", s.Progress, len(s.Status))
	}
}

package jimeng

import (
	"net/http"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// FuzzAnswer checks for any answer that only a failed task has an error, that only a completed one
// has results, and that limits, refused signatures and server errors never fail a task.
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
		if code := string(a.Code); code != codeOK && code != "success" && !upstream.NamesEnd(status) {
			t.Errorf("status %d gives %+v", status, state)
		}
		upstreamtest.CheckState(t, state, reported(state))
		if e := state.Err; e != nil && aboutTheCall[e.Code] && state.Status == "" {
			t.Errorf("a limit fails the task: %+v", e)
		}
		for _, v := range state.Videos {
			if !v.ExpiresAt.Equal(testNow.Add(urlLifetime)) {
				t.Errorf("%+v expires at the wrong time", v)
			}
		}
	})
}

// reported returns the progression that a state should have. A code can fail the task whatever its
// status word, and a task that is not found may be new.
func reported(s upstream.VideoState) upstream.Progression {
	switch {
	case s.Err != nil:
		return upstream.Failed
	case upstream.NormaliseStatus(s.Status) == "not_found":
		return upstream.Running
	default:
		return upstream.ProgressionOf(s.Status)
	}
}

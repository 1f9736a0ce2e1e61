package consumer

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func respondEncoded(encoding, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", encoding)
		_, _ = io.WriteString(w, body)
	}
}

// TestATaskOfAnUpstreamThatCompresses proves that gzip answers are read, and that the error of a
// job whose polls were unreadable until the deadline explains why.
func TestATaskOfAnUpstreamThatCompresses(t *testing.T) {
	t.Parallel()
	brotli := "\x0b\x04\x80{}\x03"
	for name, c := range map[string]struct {
		poll   http.HandlerFunc
		status string
		says   []string
	}{
		"gzip": {respondEncoded("gzip", upstreamtest.Gzip(t, `{"task_id":"up_1","status":"completed","url":"https://example.com/v.mp4"}`)), "completed", nil},
		"br": {respondEncoded("br", brotli), "failed", []string{
			"upstream sandbox", "up_1", "polls", "6 bytes of binary data", `Content-Encoding "br"`, "status 200",
		}},
		"away":         {respondStatus(http.StatusBadGateway), "failed", []string{"up_1", "polls", "status 502: bad gateway"}},
		"not finished": {respond(`{"task_id":"up_1","status":"in_progress"}`), "failed", []string{"upstream sandbox had not finished task up_1 by the deadline"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := scripted(t, map[string]http.HandlerFunc{
				createPath: respondEncoded("gzip", upstreamtest.Gzip(t, `{"task_id":"up_1","status":"queued"}`)),
				pollPath:   c.poll,
			})
			b := brokertest.Single(t)
			r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Timeouts.Deadline = 300 * time.Millisecond })))
			id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
			end := last(follow(t, r.log, id))
			if got := task.StatusWord(end.Job.GetStatus()); got != c.status {
				t.Fatalf("ended %s, %v", got, end.Job.GetError())
			}
			e := end.Job.GetError()
			if c.status == "failed" && e.GetCode() != "deadline_exceeded" {
				t.Errorf("ended with %s", e.GetCode())
			}
			for _, says := range c.says {
				if !strings.Contains(e.GetMessage(), says) {
					t.Errorf("the end does not say %q: %s", says, e.GetMessage())
				}
			}
		})
	}
}

// TestALostResultSaysWhy proves that the error of a finished task with unreadable polls explains
// why.
func TestALostResultSaysWhy(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, scripted(t, map[string]http.HandlerFunc{pollPath: respondEncoded("br", "\x0b\x04\x80{}\x03")})))
	inherit(t, r, "v", completedUpstream(-time.Second)...)
	e := last(follow(t, r.log, videoID("v"))).Job.GetError()
	if e.GetCode() != "deadline_exceeded" || e.GetUpstreamHttpStatus() != 200 || !strings.Contains(e.GetMessage(), "no longer reports its result") || !strings.Contains(e.GetMessage(), `Content-Encoding "br"`) {
		t.Errorf("ended with %v", e)
	}
}

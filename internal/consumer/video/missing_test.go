package video

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
)

// TestAMissingTask proves that a job fails only after ten minutes in which every poll said that the
// upstream does not know the task.
func TestAMissingTask(t *testing.T) {
	t.Parallel()
	const missing, notFound = http.StatusNotFound, `{"error":{"message":"Video not found"}}`
	answers := make(chan func(http.ResponseWriter), 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { (<-answers)(w) }))
	t.Cleanup(up.Close)
	p := newProcess(t, brokertest.Single(t), up.URL, func(cfg *config.Config) {
		for i := range cfg.Routes {
			if cfg.Routes[i].Kind == config.KindVideo {
				cfg.Routes[i].Poll.Interval = time.Hour // the test decides when to poll
			}
		}
	})
	item := jobtest.PastItem("missing")
	jobtest.PastOf(t, p.Log, item, submittedUpstream("up_1")...)
	j := p.held(t, item)
	poll := func(status int, body string) {
		t.Helper()
		answered := make(chan struct{})
		answers <- func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			close(answered)
		}
		j.mu.Lock()
		j.wake = time.Time{}
		j.mu.Unlock()
		j.kick()
		<-answered // by another goroutine: it rests until it has a slot
		p.runners.Holder.Jobs.Wait()
	}
	status := func() genbusv1.JobStatus { return j.held.Entry().Job.GetStatus() }

	poll(missing, notFound)
	first := j.resting.missing
	if first.IsZero() || j.resting.failures != 1 {
		t.Fatalf("after a poll: missing since %v, %d failures", first, j.resting.failures)
	}
	poll(http.StatusBadRequest, `{"code":"task_not_exist","message":"x","data":null}`)
	poll(http.StatusOK, `{"task_id":"up_1","status":"not_found"}`)
	if !j.resting.missing.Equal(first) {
		t.Errorf("missing since %v, want %v", j.resting.missing, first)
	}
	for code, body := range map[int]string{
		missing: "<html>", http.StatusInternalServerError: notFound, http.StatusTooManyRequests: "", http.StatusOK: `{"task_id":"up_1","status":"queued"}`,
	} {
		j.resting.missing = first.Add(-defaultMissing)
		if poll(code, body); !j.resting.missing.IsZero() || status() != genbusv1.JobStatus_JOB_STATUS_QUEUED {
			t.Errorf("after %d: missing since %v, %v", code, j.resting.missing, status())
		}
	}
	poll(missing, notFound)
	j.resting.missing = j.resting.missing.Add(time.Minute - defaultMissing)
	if poll(missing, notFound); status() != genbusv1.JobStatus_JOB_STATUS_QUEUED {
		t.Fatalf("%v after nine minutes", status())
	}
	j.resting.missing = j.resting.missing.Add(-time.Minute)
	poll(missing, notFound)
	v := jobtest.VideoOf(j.held.Entry())
	if e := v.GetError(); v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_FAILED || e.GetCode() != "upstream_failed" || e.GetUpstreamHttpStatus() != missing ||
		!strings.Contains(e.GetMessage(), "up_1") || !strings.Contains(e.GetMessage(), "Video not found") {
		t.Errorf("after ten minutes: %v", v)
	}
}

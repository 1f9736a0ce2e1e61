package consumer

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

func resubmitting(r *config.Route) { r.OnUnknownOutcome = config.OnUnknownResubmit }

// cutCreates starts an upstream that cuts off every create after calling noted.
func cutCreates(t *testing.T, noted func()) (url string, times func() []time.Time) {
	t.Helper()
	var mu sync.Mutex
	var at []time.Time
	url = scripted(t, map[string]http.HandlerFunc{
		createPath: func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			noted()
			panic(http.ErrAbortHandler)
		},
	})
	return url, func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

// TestNoCreateIsSentAfterTheDeadline proves that a create is not repeated if the delay, at least
// 0.8 s, ends after the deadline.
func TestNoCreateIsSentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	url, times := cutCreates(t, func() {})
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, url, videoRoutes(resubmitting), videoRoutes(func(r *config.Route) { r.Timeouts.Deadline = 500 * time.Millisecond })))
	var end joblog.Entry
	for i := 0; len(times()) == 0 && i < 10; i++ { // a machine that stood still sent none in time
		id := fmt.Sprint("v", i)
		end = last(follow(t, r.log, publish(t, b, subject.Video, id, videoRequest(id, "sandbox-video", "a cat"))))
	}
	if end.Job.GetError().GetCode() != "submission_outcome_unknown" {
		t.Errorf("ended with %v", end.Job.GetError())
	}
	if n := len(times()); n != 1 {
		t.Errorf("%d creates were sent", n)
	}
	doneOnce(t, b, end)
}

// TestAReloadReachesWhatIsResubmitted proves that a reload can stop resubmissions of a held job.
func TestAReloadReachesWhatIsResubmitted(t *testing.T) {
	t.Parallel()
	sent, reloaded := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() {
		close(sent)
		<-reloaded
	})
	url, times := cutCreates(t, once)
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, url, videoRoutes(resubmitting)))
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	<-sent
	r.reload(t, testConfig(t, url))
	close(reloaded)
	end := last(follow(t, r.log, id))
	if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_FAILED || end.Job.GetError().GetCode() != "submission_outcome_unknown" {
		t.Errorf("ended with %v", end.Job)
	}
	if n := len(times()); n != 1 {
		t.Errorf("%d creates were sent", n)
	}
}

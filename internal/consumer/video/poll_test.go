package video

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// TestTheLogOfAFailedPoll proves that the upstream's words are not logged.
func TestTheLogOfAFailedPoll(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"[]":                                   nil,
		"[error refused]":                      &upstream.Error{Message: "refused"},
		"[error broken]":                       errors.New("broken"),
		"[http_status 500 upstream_code busy]": &upstream.Error{HTTPStatus: 500, Code: "busy", Message: "the prompt", Err: errors.New("the prompt")},
	} {
		if got := fmt.Sprint(logged(err)); got != want || strings.Contains(got, "prompt") {
			t.Errorf("%v is logged as %s, not %s", err, got, want)
		}
	}
}

// observedUpstream is submittedUpstream and a poll a minute ago that answered with status.
func observedUpstream(status string) []jobtest.Transition {
	return append(submittedUpstream("up_1"), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		e, _, err := task.Observed(v, now.Add(-time.Minute), task.Observation{Started: true, Status: status})
		return e, err
	})
}

// promise is a success without a result.
func promise(status string) upstream.VideoState {
	return upstream.VideoState{Progression: upstream.Completed, Status: status, Progress: 100, Err: &upstream.Error{Message: "no video"}}
}

// TestAnotherWordForSuccessDoesNotRestartTheWait proves that the wait for a result counts from the
// first word for success.
func TestAnotherWordForSuccessDoesNotRestartTheWait(t *testing.T) {
	t.Parallel()
	p := newProcess(t, brokertest.Single(t), "http://127.0.0.1:1")
	item := jobtest.PastItem("v")
	promised := jobtest.PastOf(t, p.Log, item, observedUpstream("succeeded")...)
	j := p.held(t, item)
	for _, word := range []string{"completed", "succeeded", "SUCCESS"} {
		if out := j.polling.afterPoll(t.Context(), promise(word), true); !hold.Waits(out) || j.held.Entry().Version() != promised.Version() {
			t.Errorf("after %s: %v, %v", word, out, j.held.Entry().Job)
		}
	}
}

// TestAPromiseIsLoggedInAFullLog proves that the wait for a result starts even if the log has no
// capacity for progress.
func TestAPromiseIsLoggedInAFullLog(t *testing.T) {
	t.Parallel()
	b := brokertest.SingleLimited(t, broker.Limits{TasksMaxBytes: 2 << 20})
	p := newProcess(t, b, "http://127.0.0.1:1")
	item := jobtest.PastItem("v")
	started := jobtest.PastOf(t, p.Log, item, observedUpstream("processing")...)
	for i := range 31 {
		if _, err := b.JetStream().Publish(t.Context(), b.Names().Done(subject.Video, "foreign", "completed", fmt.Sprint(i)), make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	jobtest.Shortly(t, "the log is seen to be full", func() bool { return p.Log.Capacity.Check(t.Context()) != nil })
	j := p.held(t, item)
	if out := j.polling.afterPoll(t.Context(), upstream.VideoState{Progression: upstream.InProgress, Status: "processing", Progress: 50}, true); !hold.Waits(out) || j.held.Entry().Version() != started.Version() {
		t.Fatalf("after progress: %v, %v", out, j.held.Entry().Job)
	}
	if out := j.polling.afterPoll(t.Context(), promise("completed"), true); !hold.Waits(out) || !j.polling.promised() {
		t.Errorf("after a success: %v, %v", out, j.held.Entry().Job)
	}
}

package consumer

import (
	"net/http"
	"sync"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestAFullLogDoesNotMultiplyThePolls proves that an answer that a full log refuses is committed
// later, without more polls than the route's interval allows.
func TestAFullLogDoesNotMultiplyThePolls(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{"completed": "completed", "failed": "failed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.EachLimited(t, broker.Limits{TasksMaxBytes: 1 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				testPollsOfAFullLog(t, open(t), status)
			})
		})
	}
}

func testPollsOfAFullLog(t *testing.T, b *broker.Broker, status string) {
	const interval = 2 * time.Second // twice the delay after a failed commit
	var mu sync.Mutex
	var polls []time.Time
	ended := false
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: respond(`{"task_id":"up_1","status":"queued"}`),
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			polls = append(polls, time.Now())
			if ended {
				respond(`{"task_id":"up_1","status":%q,"url":"https://example.com/v.mp4"}`, status)(w, r)
				return
			}
			respond(`{"task_id":"up_1","status":"in_progress"}`)(w, r)
		},
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(polls)
	}
	r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Poll.Interval, r.Poll.Jitter = interval, 0 })))
	id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	fillLog(t, b, 1)
	mu.Lock()
	ended = true
	mu.Unlock()
	shortly(t, "the answer is asked for again", func() bool { return count() >= 3 })
	emptyLog(t, b)
	asked := count()
	end := last(follow(t, r.log, id))
	if task.StatusWord(end.Job.GetStatus()) != status {
		t.Errorf("ended %v, %v", end.Job.GetStatus(), end.Job.GetError())
	}
	recorded := time.Now()
	mu.Lock()
	defer mu.Unlock()
	if n, due := len(polls)-asked, int(recorded.Sub(polls[asked-1])/interval); n > due { // on a busy machine one may be due
		t.Errorf("the upstream was asked %d times more until the end was recorded, want %d", n, due)
	}
	for i := range polls[1:] {
		if gap := polls[i+1].Sub(polls[i]); gap < interval*9/10 {
			t.Errorf("poll %d came %s after the one before, want %s", i+1, gap, interval)
		}
	}
}

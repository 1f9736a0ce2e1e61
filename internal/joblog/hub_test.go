package joblog_test

import (
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// notified is a log with the statuses from its peer notifications.
type notified struct {
	*joblog.Log
	statuses chan string
}

func newNotified(t *testing.T, b *broker.Broker) notified {
	t.Helper()
	h := notified{newLog(t, b, ""), make(chan string, 100)}
	h.OnPeerNotification(func(n joblog.Summary) { h.statuses <- n.Status })
	return h
}

// expect checks the next peer notifications. Messages on one connection arrive in order, so a final
// one proves that there were no others.
func (h notified) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, status := range want {
		select {
		case got := <-h.statuses:
			if got != status {
				t.Errorf("told of %s, want %s", got, status)
			}
		case <-time.After(brokertest.Patience):
			t.Fatalf("not told of %s", status)
		}
	}
}

// TestThePreviousWriterIsNotified proves that the previous writer is notified of another replica's
// events only, and every replica of a cancellation.
func TestThePreviousWriterIsNotified(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		admits, holds, takes := newNotified(t, open(t)), newNotified(t, open(t)), newNotified(t, open(t))
		commit := func(by notified, e joblog.Entry, next task.Event, err error) joblog.Entry {
			t.Helper()
			return must[joblog.Entry](t)(by.Commit(t.Context(), must[task.Event](t)(next, err), e.Seq))
		}
		now := time.Now()
		submitted := func(e joblog.Entry, status string) (task.Event, error) {
			return task.Submitted(video(e), now, task.Receipt{UpstreamID: "up_1", Status: status})
		}
		e := must[joblog.Entry](t)(admits.Commit(t.Context(), task.FromWork(work("video_1")), 0))
		next, err := task.Submitting(video(e), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
		e = commit(holds, e, next, err)
		for i := range 3 {
			next, err = submitted(e, string(rune('a'+i)))
			e = commit(holds, e, next, err)
		}
		next, err = submitted(e, "taken over")
		e = commit(takes, e, next, err)
		holds.expect(t, "queued") // not of its own events, and the admitting replica not of the holder's first
		next, err = task.Cancelled(e.Job, now, nil)
		commit(admits, e, next, err) // the holder may have taken over without writing
		for _, each := range []notified{admits, holds, takes} {
			each.expect(t, "cancelled")
		}

		other := must[joblog.Entry](t)(admits.Commit(t.Context(), task.FromWork(work("video_2")), 0))
		next, err = task.Cancelled(other.Job, now, nil)
		commit(takes, other, next, err)
		for _, each := range []notified{admits, holds, takes} {
			each.expect(t, "cancelled")
		}

		mine := submit(t, holds.Log, "video_3")
		next, err = task.Failed(mine.Job, now, &genbusv1.TaskError{Code: "upstream_failed"})
		commit(holds, mine, next, err)
		holds.expect(t, "failed")
	})
}

package queue_test

import (
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestOldest proves that Oldest covers ready jobs and the backlog, and ignores delivered jobs.
func TestOldest(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 1)
		oldest := func() time.Time {
			t.Helper()
			at, err := h.route.Oldest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		accept := func(request string) time.Time {
			t.Helper()
			e, err := h.Admit(t.Context(), video(request, "a cat"))
			if err != nil {
				t.Fatal(err)
			}
			return e.Job.GetCreatedAt().AsTime()
		}
		if at := oldest(); !at.IsZero() {
			t.Errorf("nothing waits, but since %s", at)
		}
		ready, backlog := accept("one"), accept("two")
		// The consumer learns of a new message after the stream has stored it.
		await(t, "the ready job is the oldest", func() bool { return oldest().Equal(ready) })
		brokertest.Next(t, h.consumer)
		await(t, "the job of the backlog is the oldest", func() bool { return oldest().Equal(backlog) })
		if _, err := h.Route(subject.Chat, "no-such-route").Oldest(t.Context()); err == nil {
			t.Error("a route without a consumer has no error")
		}
	})
}

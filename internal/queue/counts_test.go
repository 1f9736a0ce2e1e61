package queue_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// TestCount proves that Count updates all routes and reports those whose durable consumer is gone.
func TestCount(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 2)
		for i := range 5 {
			h.admit(t, "acme", fmt.Sprint(i))
		}
		chat := h.Route(subject.Chat, config.SandboxChatRoute)
		await(t, "the count", func() bool {
			uncounted, err := h.Count(t.Context())
			return err == nil && len(uncounted) == 0 && h.route.Counts() == queue.Counts{Ready: 2, Backlog: 3}
		})
		if n := chat.Counts(); n != (queue.Counts{}) {
			t.Errorf("a route without jobs has %v", n)
		}
		if err := h.b.JetStream().DeleteConsumer(t.Context(), h.b.Names().Wait(), subject.WorkDurable(subject.Chat, config.SandboxChatRoute)); err != nil {
			t.Fatal(err)
		}
		await(t, "the route whose consumer is gone", func() bool {
			uncounted, err := h.Count(t.Context())
			return err == nil && len(uncounted) == 1 && uncounted[chat]
		})
	})
}

// TestAJobIsCountedOnce proves that a job taken since the last count is held, not waiting.
func TestAJobIsCountedOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 2)
		for i := range 5 {
			h.admit(t, "acme", fmt.Sprint(i))
		}
		await(t, "the count", func() bool {
			uncounted, err := h.Count(t.Context())
			return err == nil && len(uncounted) == 0 && h.route.Counts() == queue.Counts{Ready: 2, Backlog: 3}
		})
		h.take(t)
		h.take(t)
		s, err := h.route.State(t.Context())
		if err != nil || s.Held != 2 || s.Waiting != 3 {
			t.Errorf("of five jobs two were taken: %d wait and %d are held, %v", s.Waiting, s.Held, err)
		}
	})
}

// TestCountOfManyRoutes proves that Count handles a list of several pages.
func TestCountOfManyRoutes(t *testing.T) {
	t.Parallel()
	const many = 600
	b := brokertest.Single(t)
	h := newReplica(t, b, 2)
	for i := range many {
		name := fmt.Sprintf("r%03d", i)
		for _, stream := range []string{b.Names().Work(), b.Names().Wait()} {
			pattern := b.Names().WorkRoutePattern(subject.Video, name)
			if stream == b.Names().Wait() {
				pattern = b.Names().WaitRoutePattern(subject.Video, name)
			}
			if _, err := b.JetStream().CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{
				Durable: subject.WorkDurable(subject.Video, name), FilterSubject: pattern, AckPolicy: jetstream.AckExplicitPolicy,
				MemoryStorage: true, // on disk, a server needs 10 ms to stop each
			}); err != nil {
				t.Fatal(err)
			}
		}
		h.Route(subject.Video, name)
	}
	if uncounted, err := h.Count(t.Context()); err != nil || len(uncounted) != 0 {
		t.Errorf("%d routes were not counted: %v", len(uncounted), err)
	}
}

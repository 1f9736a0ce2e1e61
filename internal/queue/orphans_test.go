package queue_test

import (
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestABacklogWithoutARouteIsFound although none of its jobs is ready, and whether or not its
// durable consumer is still there.
func TestABacklogWithoutARouteIsFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		before := newReplica(t, open(t), 2, func(r *config.Route) {
			if r.Name == config.SandboxVideoRoute {
				r.Name = "gone"
			}
		})
		item := before.stored(t, video("one", "a cat"))
		item.Route = "gone"
		before.put(t, before.waitSubject(item), item)
		h := newReplica(t, before.b, 2)
		h.admit(t, "acme", "of a route that is there")
		for _, deleted := range []bool{false, true} {
			if deleted {
				if err := h.b.JetStream().DeleteConsumer(t.Context(), h.b.Names().Wait(), subject.WorkDurable(subject.Video, "gone")); err != nil {
					t.Fatal(err)
				}
			}
			found, err := h.Orphans(t.Context())
			if err != nil || len(found) != 1 || found[0].Name != "gone" || found[0].Waiting != 1 || found[0].Ready != 0 {
				t.Errorf("deleted: %t: %v, %v", deleted, found, err)
			}
		}
	})
}

// TestReadyJobsWithoutARouteAreFound whether a replica holds them or not, and whether or not
// their durable consumer is still there.
func TestReadyJobsWithoutARouteAreFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		before := newReplica(t, open(t), 2, func(r *config.Route) {
			if r.Name == config.SandboxVideoRoute {
				r.Name = "gone"
			}
		})
		gone, err := before.b.Consumer(t.Context(), before.b.Names().Work(), subject.WorkDurable(subject.Video, "gone"))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"one", "two"} {
			item := before.stored(t, video(id, "a cat"))
			item.Route = "gone"
			before.put(t, before.workSubject(item), item)
		}
		brokertest.Next(t, gone) // and one is held
		h := newReplica(t, before.b, 2)
		h.admit(t, "acme", "of a route that is there")
		h.take(t)
		for _, deleted := range []bool{false, true} {
			if deleted {
				if err := h.b.JetStream().DeleteConsumer(t.Context(), h.b.Names().Work(), subject.WorkDurable(subject.Video, "gone")); err != nil {
					t.Fatal(err)
				}
			}
			found, err := h.Orphans(t.Context())
			if err != nil || len(found) != 1 || found[0].Name != "gone" || found[0].Ready != 2 || found[0].Waiting != 0 {
				t.Errorf("deleted: %t: %v, %v", deleted, found, err)
			}
		}
	})
}

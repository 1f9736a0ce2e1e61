package consumer

import (
	"errors"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestRouteThatIsBackKeepsItsJobs: a reload puts a route back after the watch has asked
// for what its last holders held, and before it adopts that. Every item stays where it
// stands, in line or behind it, and its job goes on.
func TestRouteThatIsBackKeepsItsJobs(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSentBodies(t)
				next := testConfig(t, up.url, orphans(mode))
				r := idleReplica(t, b, testConfig(t, up.url, removes(mode)))
				ids := []string{
					storeItem(t, b, config.SandboxVideoRoute, videoID("line"), 0).GetId(),
					waitItem(t, b, config.SandboxVideoRoute, videoID("behind"), 0).GetId(),
				}
				w := newOrphanWatch(r.Consumer, routeID{subject.Video, config.SandboxVideoRoute})
				held := takeAll(t, w, next)
				swap, err := r.Routes.Reload(next)
				if err != nil {
					t.Fatal(err)
				}
				swap()
				w.keepsAll(t, held, ids)
				r.Config.Set(next)
				if err := r.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					end := last(follow(t, r.log, id))
					if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(up.of(id)) != 1 {
						t.Errorf("%s ended %v, and was sent %d times", id, end.Job.GetError(), len(up.of(id)))
					}
					doneOnce(t, b, end)
				}
			})
		})
	}
}

// takeAll is what stands in line on the watched route, delivered to the watch.
func takeAll(t *testing.T, w *orphanWatch, cfg *config.Config) []delivery {
	t.Helper()
	for _, r := range cfg.Routes {
		if idOf(r) != w.routeID {
			continue
		}
		cons, err := w.ensureRoute(t.Context(), r, w.Broker.EnsureConsumer)
		if err != nil {
			t.Fatal(err)
		}
		held, err := w.take(cons, fetchBatch)
		if err != nil || len(held) != 1 {
			t.Fatalf("took %v, %v", held, err)
		}
		return held
	}
	t.Fatalf("no route %v", w.routeID)
	return nil
}

// keepsAll checks that the watch adopts nothing, at any of its steps.
func (w *orphanWatch) keepsAll(t *testing.T, held []delivery, ids []string) {
	t.Helper()
	if err := w.adoptHeld(held, w.Config.Now().Routes[0].AckWait); !errors.Is(err, errRouteBack) {
		t.Errorf("what is held: %v", err)
	}
	for _, at := range w.places() {
		if err := w.adoptStored(at); !errors.Is(err, errRouteBack) {
			t.Errorf("what stands in %s: %v", at.stream, err)
		}
	}
	for _, id := range ids {
		orphan, err := w.Queue.Find(t.Context(), subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: id})
		if err != nil {
			t.Fatalf("%s has no item: %v", id, err)
		}
		item, err := orphan.Decode()
		if err != nil {
			t.Fatal(err)
		}
		// The route may come back after the watch has looked whether it has.
		if err := w.settleOrphan(t.Context(), orphan, item); !errors.Is(err, errRouteBack) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

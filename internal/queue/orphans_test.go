package queue_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestABacklogWithoutARouteIsFound proves that an unconfigured route is found by its backlog alone,
// with or without its durable consumer.
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
			if err != nil || len(found) != 1 || found[0].Name != "gone" || found[0].Backlog != 1 || found[0].Ready != 0 {
				t.Errorf("deleted: %t: %v, %v", deleted, found, err)
			}
		}
	})
}

// TestReadyJobsWithoutARouteAreFound proves that an unconfigured route is found by its ready or
// held jobs, with or without its durable consumer.
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
		brokertest.Next(t, gone) // one is held
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
			if err != nil || len(found) != 1 || found[0].Name != "gone" || found[0].Ready != 2 || found[0].Backlog != 0 {
				t.Errorf("deleted: %t: %v, %v", deleted, found, err)
			}
		}
	})
}

// TestOneFailedListIsNoReasonToListSubjects proves that after a failed list of consumers, later
// searches use consumers again.
func TestOneFailedListIsNoReasonToListSubjects(t *testing.T) {
	t.Parallel()
	h := newReplica(t, brokertest.Single(t), 2)
	if err := h.b.JetStream().DeleteStream(t.Context(), h.b.Names().Wait()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Count(t.Context()); err == nil {
		t.Fatal("the consumers of a stream that is gone are listed")
	}
	if _, err := h.Orphans(t.Context()); err == nil {
		t.Fatal("orphans of a stream that is gone are found")
	}
	if err := h.b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.cfg.Routes {
		if _, err := h.Route(subject.Kind(r.Kind), r.Name).Ensure(t.Context(), r, h.b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
	}
	if n := listsSubjects(t, h); n != 0 {
		t.Errorf("%d streams had their subjects listed", n)
	}
	if uncounted, err := h.Count(t.Context()); err != nil || len(uncounted) != 0 {
		t.Errorf("%d routes are not counted together: %v", len(uncounted), err)
	}
}

// TestOrphansWhereConsumersMayNotBeListed proves that the search lists subjects if listing
// consumers is not permitted.
func TestOrphansWhereConsumersMayNotBeListed(t *testing.T) {
	brokertest.Full(t, "waits ten seconds for answers that do not come")
	t.Parallel()
	s := brokertest.Serve(t, &server.Options{
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.LIST.>"}}}}},
	})
	h := newReplica(t, brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL(), Connect: []nats.Option{nats.UserInfo("u", "p")},
	}), 2)
	if n := listsSubjects(t, h); n != 2 {
		t.Errorf("%d streams had their subjects listed", n)
	}
}

// listsSubjects searches for unconfigured routes and returns how many lists of subjects that took.
func listsSubjects(t testing.TB, h *replica) (n int) {
	t.Helper()
	asked := make(chan *nats.Msg, 64)
	sub, err := h.b.Conn().ChanSubscribe("$JS.API.STREAM.INFO.*", asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Orphans(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	for len(asked) > 0 {
		n += strings.Count(string((<-asked).Data), "subjects_filter")
	}
	return n
}

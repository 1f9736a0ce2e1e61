package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestTenantsAreDispatchedInTurn proves that the first job of a new tenant waits for the ready jobs
// and for one job of each other tenant, and that the jobs of a tenant keep their order, except
// within a batch.
func TestTenantsAreDispatchedInTurn(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const places, many = 6, 60
		h := newReplica(t, open(t), places).start(t)
		var order []string
		for i := range many {
			order = append(order, h.admit(t, "acme", fmt.Sprint(i)).Job.GetId())
		}
		await(t, "a full window", func() bool { return h.ready(t) == places && h.waiting(t) == many-places })
		others := []string{"b", "c", "d"}
		for _, tenant := range others {
			h.admit(t, tenant, "first")
			h.admit(t, tenant, "second")
		}
		h.indexed(t, 4)
		if n := h.ready(t); n != places {
			t.Errorf("%d are ready, and the window has %d places", n, places)
		}
		served := map[string][]int{}
		var ids []string
		for i := range many + 2*len(others) {
			n := h.serve(t)
			served[n.Tenant] = append(served[n.Tenant], i)
			if n.Tenant == "acme" {
				ids = append(ids, n.ID)
			}
		}
		for _, tenant := range others {
			if first := served[tenant][0]; first >= places+len(others)+1+places {
				t.Errorf("the first job of %s came after %d others: %v", tenant, first, served)
			}
		}
		if !inOrder(order, ids, places) {
			t.Error("the jobs of one tenant were served in another order")
		}
		// In a cluster, a stream drops acknowledged messages with a delay.
		await(t, "no ready jobs, and no backlog", func() bool { return h.ready(t)+h.waiting(t) == 0 })
	})
}

// inOrder reports whether no ID is further than slack from its place. Concurrent dispatches may
// swap jobs.
func inOrder(want, got []string, slack int) bool {
	for i, id := range got {
		if at := slices.Index(want, id); at < 0 || at-i > slack || i-at > slack {
			return false
		}
	}
	return len(want) == len(got)
}

// TestManyReplicasDispatchEachJobOnce proves that three replicas that dispatch and take jobs serve
// every job, are fair to tenants, and keep the ready jobs within their limit.
func TestManyReplicasDispatchEachJobOnce(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const count, places, many, tenants = 3, 4, 90, 12
		b := open(t)
		replicas := []*replica{newReplica(t, b, places).start(t)}
		for range count - 1 {
			replicas = append(replicas, newReplica(t, open(t), places).start(t))
		}
		for i := range many {
			replicas[i%count].admit(t, "acme", fmt.Sprint(i))
		}
		for i := range tenants {
			replicas[i%count].admit(t, fmt.Sprint("t", i), "")
		}
		await(t, "one replica that knows all tenants", func() bool { return slices.Equal(indexing(t, replicas), []int{0, 0, tenants + 1}) })
		if n := replicas[0].ready(t); n > count*places {
			t.Errorf("%d are ready", n)
		}
		order := takeAll(t, replicas, many+tenants)
		last := 0
		for i, n := range order {
			if n.Tenant != "acme" {
				last = i
			}
		}
		if bound := count * (places + tenants + 1 + places); last >= bound {
			t.Errorf("the last of the others came after %d jobs; the bound is %d", last, bound)
		}
		await(t, "an empty room", func() bool { return replicas[0].waiting(t) == 0 })
	})
}

// indexing returns how many tenants each replica has in its index, in ascending order.
func indexing(t testing.TB, replicas []*replica) (tenants []int) {
	t.Helper()
	for _, h := range replicas {
		_, n := h.route.Waiting(t.Context())
		tenants = append(tenants, n)
	}
	slices.Sort(tenants)
	return tenants
}

// takeAll makes all replicas take ready jobs until want jobs were taken, and returns them in that
// order.
func takeAll(t testing.TB, replicas []*replica, want int) (order []subject.WorkName) {
	t.Helper()
	var mu sync.Mutex
	// An item may return after its job was taken. In production, the log shows that the job has
	// ended.
	note := func(n subject.WorkName) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(order, n) {
			order = append(order, n)
		}
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(order) >= want
	}
	var wg sync.WaitGroup
	for _, h := range replicas {
		wg.Go(func() {
			for !all() {
				m, err := h.consumer.Next(jetstream.FetchMaxWait(time.Second))
				if errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerLeadershipChanged) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				h.route.Taken(1)
				n, _ := h.b.Names().ParseWorkItem(m.Subject())
				note(n)
				_ = m.Ack() // redelivered if lost
			}
		})
	}
	wg.Wait()
	return order
}

// TestAFullStreamOfReadyJobsKeepsNothingOutForGood proves that jobs of the backlog become ready
// once a full GENBUS_WORK has capacity.
func TestAFullStreamOfReadyJobsKeepsNothingOutForGood(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 2)
		setMaxMsgs(t, h.b, h.b.Names().Work(), 2)
		setMaxMsgs(t, h.b, h.b.Names().Wait(), 3)
		h.start(t)
		for i := range 5 {
			h.admit(t, "acme", fmt.Sprint(i))
		}
		_, err := h.Admit(t.Context(), video("one too many", "a cat"))
		if f := errcode.From(err); f.Code != errcode.QueueFull || f.RetryAfter == 0 {
			t.Errorf("one too many: %v", err)
		}
		if h.take(t); h.ready(t) != 2 {
			t.Errorf("%d in the stream of ready jobs", h.ready(t))
		}
		for i := range 4 {
			if err := h.held[i].DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.take(t)
		}
		await(t, "an empty room", func() bool { return h.waiting(t) == 0 })
	})
}

func setMaxMsgs(t testing.TB, b *broker.Broker, stream string, n int64) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = n
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// TestMaxQueuedCountsTheBacklog proves that max_queued counts the backlog and the ready jobs.
func TestMaxQueuedCountsTheBacklog(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 2, func(r *config.Route) { r.MaxQueued = 5 }).start(t)
		for i := range 5 {
			h.admit(t, "acme", fmt.Sprint(i))
		}
		// A count may contain a job in dispatch twice or not at all. With a full window, none is in
		// dispatch.
		await(t, "the count", func() bool {
			_, _ = h.route.Waiting(t.Context()) // counts again
			c := h.route.Counts()
			return c.Ready == 2 && c.Backlog == 3
		})
		if _, err := h.Admit(t.Context(), video("sixth", "a cat")); errcode.CodeOf(err) != errcode.QueueFull {
			t.Errorf("the sixth: %v", err)
		}
		if e := h.admit(t, "acme", "4"); e.Job.GetId() == "" {
			t.Error("a job that waits already is attached to")
		}
	})
}

// TestJobThatWaitsIsAttachedTo proves that a request finds the waiting job with its ID, and that
// another body is refused, even before the job is logged.
func TestJobThatWaitsIsAttachedTo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 1)
		h.admit(t, "acme", "ready")
		item := h.stored(t, video("one", "a cat"))
		h.put(t, h.waitSubject(item), item)
		if _, err := h.Admit(t.Context(), video("one", "a dog")); errcode.CodeOf(err) != errcode.IdempotencyKeyReused {
			t.Errorf("another body: %v", err)
		}
		e, err := h.Admit(t.Context(), video("one", "a cat"))
		if err != nil || !e.Job.GetCreatedAt().AsTime().Equal(item.GetAcceptedAt().AsTime()) {
			t.Errorf("the same: %v, %v", e.Job, err)
		}
	})
}

// TestRemoveAfterRemovesFromTheBacklog proves that RemoveAfter and AwaitRemoved cover the backlog.
func TestRemoveAfterRemovesFromTheBacklog(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 1)
		h.admit(t, "acme", "ready")
		e := h.admit(t, "acme", "one")
		if err := h.Items.AwaitRemoved(t.Context(), e.Name(), 0); errcode.CodeOf(err) != errcode.StillHeld {
			t.Errorf("released: %v", err)
		}
		for range 2 {
			if err := h.RemoveAfter(t.Context(), e, 0); err != nil || h.waiting(t) != 0 || h.ready(t) != 1 {
				t.Errorf("%v; left: %d ready, %d in the backlog", err, h.ready(t), h.waiting(t))
			}
		}
		e = h.admit(t, "acme", "two")
		if err := h.RemoveEnded(t.Context(), e); err != nil || h.waiting(t) != 0 {
			t.Errorf("left: %v, %d", err, h.waiting(t))
		}
		if err := h.RemoveEnded(t.Context(), h.admit(t, "acme", "ready")); err != nil || h.ready(t) != 0 {
			t.Errorf("a ready one: %v, %d", err, h.ready(t))
		}
	})
}

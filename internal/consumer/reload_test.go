package consumer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// maxAckPending is how many jobs the broker gives to all replicas of a video route.
func (r *replica) maxAckPending(t *testing.T, route string) int {
	t.Helper()
	cons, err := r.Broker.Consumer(t.Context(), r.Broker.Names().Work(), subject.WorkDurable(subject.Video, route))
	if err != nil {
		t.Fatal(err)
	}
	return cons.CachedInfo().Config.MaxAckPending
}

// TestRefusedReloadIsForgotten: the broker takes the new bound of a route and refuses the
// route behind it. It is told the old bound again, and the new one by the next reload.
func TestRefusedReloadIsForgotten(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	const route, url = config.SandboxVideoRoute, "http://127.0.0.1:1"
	r := newReplica(t, b, testConfig(t, url, slotsOf(3, 3)))
	next := testConfig(t, url, slotsOf(7, 7), func(c *config.Config) {
		i := slices.IndexFunc(c.Routes, func(r config.Route) bool { return r.Name == route })
		added := c.Routes[i]
		added.Name, added.Models = "zz-added", []string{"added"}
		c.Routes = append(c.Routes, added)
	})
	work := b.Names().Work()
	if _, err := b.JetStream().CreateConsumer(t.Context(), work, jetstream.ConsumerConfig{
		Durable: "in-the-way", FilterSubject: b.Names().WorkRoutePattern(subject.Video, "zz-added"), AckPolicy: jetstream.AckExplicitPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Prepare(t.Context(), next); err == nil {
		t.Fatal("the plan has a consumer that the broker refuses")
	}
	if got := r.maxAckPending(t, route); got != 3 {
		t.Errorf("after a refused reload the broker has %d", got)
	}
	if err := b.JetStream().DeleteConsumer(t.Context(), work, "in-the-way"); err != nil {
		t.Fatal(err)
	}
	plan, err := r.Prepare(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	swap, err := r.Routes.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	plan.Apply(t.Context(), func() { swap(); r.Config.Set(next) })
	if got := r.maxAckPending(t, route); got != 7 {
		t.Errorf("after the reload the broker has %d", got)
	}
}

// toldAnotherBound is a replica that may have 3 videos in flight, and whose broker was
// told 7.
func toldAnotherBound(t *testing.T, b *broker.Broker) *replica {
	t.Helper()
	r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1", slotsOf(3, 3)))
	run := r.running[routeID{subject.Video, config.SandboxVideoRoute}]
	other := run.route
	other.MaxInFlight = 7
	if err := r.tell(t.Context(), run, other); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBrokerThatKeptARefusedBound is told the one that is in force by the next reload,
// although that changes nothing in this process.
func TestBrokerThatKeptARefusedBound(t *testing.T) {
	t.Parallel()
	r := toldAnotherBound(t, brokertest.Single(t))
	if _, err := r.Prepare(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if got := r.maxAckPending(t, config.SandboxVideoRoute); got != 3 {
		t.Errorf("the broker has %d", got)
	}
}

// TestStopAsksTheBrokerForNothing: a reload that a stop has cut takes none of its time to
// put a bound back. The broker is told at the next start.
func TestStopAsksTheBrokerForNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := toldAnotherBound(t, b)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := r.Prepare(stopped, r.cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if got := r.maxAckPending(t, config.SandboxVideoRoute); got != 7 {
		t.Errorf("the broker was asked after the stop, and has %d", got)
	}
	newReplica(t, b, r.cfg)
	if got := r.maxAckPending(t, config.SandboxVideoRoute); got != 3 {
		t.Errorf("after the next start the broker has %d", got)
	}
}

// TestStopDoesNotWaitForRemovedRoutes: what a removed route still has under way, such as
// a move into its line that the broker does not answer, ends within the grace period.
func TestStopDoesNotWaitForRemovedRoutes(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), testConfig(t, "http://127.0.0.1:1"))
	next := testConfig(t, "http://127.0.0.1:1", removes(config.OrphansFail))
	answered, ended := make(chan struct{}), false
	r.running[routeID{subject.Video, config.SandboxVideoRoute}].loops.Go(func() { <-answered; ended = true })
	plan, err := r.Prepare(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	swap, err := r.Routes.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	late := time.AfterFunc(3*time.Second, func() { close(answered) })
	plan.Apply(stopped, func() { swap(); r.Config.Set(next); stop() })
	if !late.Stop() {
		t.Fatal("the stop waited for a removed route")
	}
	context.AfterFunc(r.fetching, func() { close(answered) })
	r.stop(true)
	if !ended {
		t.Error("the removed route outlives the grace period")
	}
}

package consumer

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// maxAckPending returns the broker's limit of held jobs for a video route.
func (r *replica) maxAckPending(t *testing.T, route string) int {
	t.Helper()
	cons, err := r.Broker.Consumer(t.Context(), r.Broker.Names().Work(), subject.WorkDurable(subject.Video, route))
	if err != nil {
		t.Fatal(err)
	}
	return cons.CachedInfo().Config.MaxAckPending
}

// reload applies another configuration, as the service does.
func (r *replica) reload(t *testing.T, next *config.Config) {
	t.Helper()
	plan, err := r.Prepare(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	swap, err := r.Routes.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	plan.Apply(func() { swap(); r.Config.Set(next) })
}

// TestRefusedReloadIsReverted proves that a limit applied before another route's was refused is
// reverted, and applied by the next reload.
func TestRefusedReloadIsReverted(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	const route, url = config.SandboxVideoRoute, "http://127.0.0.1:1"
	r := newReplica(t, b, testConfig(t, url, slotsOf(3, 3)))
	next := testConfig(t, url, slotsOf(7, 7))
	work, behind := b.Names().Work(), next.Routes[len(next.Routes)-1]
	if behind.Name == route {
		t.Fatal("no route is behind the route of the videos")
	}
	durable := subject.WorkDurable(subject.Kind(behind.Kind), behind.Name)
	if err := b.JetStream().DeleteConsumer(t.Context(), work, durable); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().CreateConsumer(t.Context(), work, jetstream.ConsumerConfig{
		Durable: "in-the-way", FilterSubject: b.Names().WorkRoutePattern(subject.Kind(behind.Kind), behind.Name), AckPolicy: jetstream.AckExplicitPolicy,
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
	r.reload(t, next)
	if got := r.maxAckPending(t, route); got != 7 {
		t.Errorf("after the reload the broker has %d", got)
	}
}

// withAnotherBound returns a replica with a limit of 3 videos whose broker has 7.
func withAnotherBound(t *testing.T, b *broker.Broker) *replica {
	t.Helper()
	r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1", slotsOf(3, 3)))
	run := r.running[routeID{subject.Video, config.SandboxVideoRoute}]
	other := run.route
	other.MaxInFlight = 7
	if err := r.applyMaxAckPending(t.Context(), run, other); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBrokerThatKeptARefusedBound proves that the next reload corrects the broker's limit, even if
// it changes nothing in this process.
func TestBrokerThatKeptARefusedBound(t *testing.T) {
	t.Parallel()
	r := withAnotherBound(t, brokertest.Single(t))
	if _, err := r.Prepare(t.Context(), r.cfg); err != nil {
		t.Fatal(err)
	}
	if got := r.maxAckPending(t, config.SandboxVideoRoute); got != 3 {
		t.Errorf("the broker has %d", got)
	}
}

// TestStopAsksTheBrokerForNothing proves that a reload cut off by a stop does not revert limits,
// and that the next start corrects them.
func TestStopAsksTheBrokerForNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := withAnotherBound(t, b)
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

// refuseEvents makes the log refuse every write, or accept them again.
func refuseEvents(ctx context.Context, b *broker.Broker, on bool) error {
	s, err := b.Stream(ctx, b.Names().Tasks())
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxMsgSize = -1; on {
		cfg.MaxMsgSize = 1
	}
	_, err = b.JetStream().UpdateStream(ctx, cfg)
	return err
}

// TestJobThatIsGivenBackKeepsItsCreate proves that a process which gets back a job whose create had
// no answer does not send it again.
func TestJobThatIsGivenBackKeepsItsCreate(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	var sent atomic.Bool
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost || sent.Swap(true) {
			return nil
		}
		if err := refuseEvents(t.Context(), b, true); err != nil {
			t.Error(err)
		}
		return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
	})
	r := newReplica(t, b, testConfig(t, up.URL(), videoRoutes(func(r *config.Route) { r.Timeouts.Create = 5 * time.Second }))) // the broker is asked in it
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_SUBMITTING)
	shortly(t, "the task is created", func() bool { return up.Sandbox.Stats().Tasks == 1 })
	held := heldJob(r.holder, id)
	if held == nil {
		t.Fatal("the job is not held")
	}
	held.HandOver()
	shortly(t, "the job is taken again", func() bool { again := heldJob(r.holder, id); return again != nil && again != held })
	if err := refuseEvents(t.Context(), b, false); err != nil {
		t.Fatal(err)
	}
	end := last(follow(t, r.log, id))
	if code := end.Job.GetError().GetCode(); code != "submission_outcome_unknown" {
		t.Errorf("ended %v with %q", end.Job.GetStatus(), code)
	}
	if s := up.Sandbox.Stats(); s.Creates != 1 {
		t.Errorf("%d creates", s.Creates)
	}
	doneOnce(t, b, end)
}

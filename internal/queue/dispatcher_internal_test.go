package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// noReadyJobs keeps all jobs in the backlog.
const noReadyJobs = -1

// idle returns a queue of the sandbox's routes that makes no job ready.
func idle(t testing.TB, b *broker.Broker) (*Queue, *config.Config) {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs = noReadyJobs
	}
	live := config.NewLive(cfg)
	log := joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	return New(live, b, log, quota.NewDeadLetterQuota(live, b)), cfg
}

// TestWhatWasMissedIsReadAgain proves that the dispatcher rereads the backlog if its index lacks
// jobs.
func TestWhatWasMissedIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*backlog){
		"all":        func(l *backlog) { l.roundRobin = newRoundRobin() },
		"one tenant": func(l *backlog) { l.roundRobin.remove("other", math.MaxUint64) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			q, cfg := idle(t, b)
			ctx, cancel := context.WithCancel(t.Context())
			var dispatchers sync.WaitGroup
			dispatchers.Go(func() { q.Run(ctx, brokertest.Logger(t)) })
			for _, r := range cfg.Routes {
				if _, err := q.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, b.Streams().EnsureConsumer); err != nil {
					t.Fatal(err)
				}
				dispatchers.Go(func() { q.Dispatch(ctx, subject.Kind(r.Kind), r.Name, r.ReadyJobs, brokertest.Logger(t)) })
			}
			defer dispatchers.Wait()
			defer cancel()
			backlog := q.Route(subject.Video, config.SandboxVideoRoute).backlog
			known := func(jobs uint64) {
				t.Helper()
				for begin := time.Now(); ; {
					n, _ := backlog.jobs(time.Now())
					if n == jobs {
						return
					}
					if err := broker.Wait(ctx, 20*time.Millisecond); err != nil || time.Since(begin) > brokertest.Patience {
						t.Fatalf("%d jobs are known, not %d", n, jobs)
					}
				}
			}
			for i, tenant := range []string{"acme", "other"} {
				if _, err := b.Publish(ctx, nats.NewMsg(b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, tenant, fmt.Sprint("video_", i)))); err != nil {
					t.Fatal(err)
				}
			}
			known(2)
			backlog.mu.Lock()
			forget(backlog)
			backlog.mu.Unlock()
			known(2)
		})
	}
}

// TestJobsThatOthersHaveDispatchedAreSkippedOnce proves that among many concurrent misses, one
// looks up the tenant's next job.
func TestJobsThatOthersHaveDispatchedAreSkippedOnce(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	d := notifiedEarly(t, b)
	defer d.index.ending.Wait()
	defer d.index.clear()
	for range 2 * maxDispatches {
		stored, err := b.Publish(t.Context(), nats.NewMsg(b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", "video_1")))
		if err != nil {
			t.Fatal(err)
		}
		d.route.backlog.add(d.route.backlog.readings, "acme", stored.Seq)
		if _, err := b.Delete(t.Context(), b.Names().Wait(), stored.Seq); err != nil {
			t.Fatal(err)
		}
	}
	asked := make(chan *nats.Msg, 4*maxDispatches)
	if _, err := b.Conn().ChanSubscribe("$JS.API.STREAM.INFO."+b.Names().Wait(), asked); err != nil {
		t.Fatal(err)
	}
	batch := make([]turn, maxDispatches)
	for i := range batch {
		batch[i], _ = d.route.backlog.next(time.Now())
	}
	var dispatches sync.WaitGroup
	for _, next := range batch {
		dispatches.Go(func() {
			if v, err := d.dispatch(t.Context(), candidate{turn: next}); v != obsolete || err != nil {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	dispatches.Wait()
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(asked) - maxDispatches; n != 1 { // each dispatch asks once whether the leader has its job
		t.Errorf("%d dispatches looked for the next job", n)
	}
	if n := d.route.backlog.tenants(); n != 0 {
		t.Errorf("%d tenants are left", n)
	}
}

// TestJobThatEndsWhileItIsDispatched proves that a job leaves no item if it is cancelled and
// removed after the dispatcher has checked it, before or during its publish.
func TestJobThatEndsWhileItIsDispatched(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		t.Run("before", func(t *testing.T) { endsWhileItIsMoved(t, open(t), true) })
		t.Run("meanwhile", func(t *testing.T) { endsWhileItIsMoved(t, open(t), false) })
	})
}

// wait puts a video of tenant acme into the backlog.
func wait(t *testing.T, q *Queue) *genbusv1.WorkItem {
	t.Helper()
	item := &genbusv1.WorkItem{
		Id: subject.JobID(subject.Video, "acme", t.Name()), Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Model: "m",
		Body: []byte("{}"), Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	}
	reserved, err := q.Reserve(item)
	if err == nil {
		_, err = reserved.Put(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func endsWhileItIsMoved(t *testing.T, b *broker.Broker, before bool) {
	q, _ := idle(t, b)
	item := wait(t, q)
	e, err := q.log.Commit(t.Context(), task.FromWork(item), 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := q.Items.Find(t.Context(), e.Name())
	if err != nil || from.Stream != b.Names().Wait() {
		t.Fatalf("the job is in %s: %v", from.Stream, err)
	}
	n, err := b.Names().ParseWaitItem(from.Subject)
	if err != nil {
		t.Fatal(err)
	}
	d := &jobDispatcher{q: q, route: q.Route(n.Kind, n.Route)}
	mark, ended, err := d.ensureLogged(t.Context(), from, joblog.Entry{})
	if err != nil || ended {
		t.Fatal(ended, err)
	}
	next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "cancelled").TaskError())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = q.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := q.log.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	looked, err := q.Items.All(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	if before {
		if err := q.RemoveEnded(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	v, err := d.enqueue(t.Context(), n, from, mark)
	if err != nil || v != enqueued {
		t.Fatal(v, err)
	}
	if v, err := d.removeDispatched(t.Context(), n, from, v); err != nil || v != enqueued {
		t.Error(v, err)
	}
	if !before {
		if dispatched, err := q.removeAll(t.Context(), e, looked); err != nil || !dispatched {
			t.Fatalf("there is no second look: %v", err)
		}
		if err := q.RemoveEnded(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := q.Items.Find(t.Context(), e.Name()); !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("the job has an item in %s: %v", i.Stream, err)
	}
}

// notifiedEarly returns a dispatcher whose index has a job of acme that the leader has not stored
// yet.
func notifiedEarly(t *testing.T, b *broker.Broker) *dispatcher {
	t.Helper()
	q, _ := idle(t, b)
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	d := &dispatcher{q: q, route: r, jobs: jobDispatcher{q: q, route: r}, index: indexing{route: r, logger: brokertest.Logger(t)}, logger: brokertest.Logger(t)}
	s, err := b.Stream(t.Context(), b.Names().Wait())
	if err != nil {
		t.Fatal(err)
	}
	r.backlog.add(r.backlog.clear(s.CachedInfo().Created), "acme", s.CachedInfo().State.LastSeq+1)
	return d
}

// dispatches fills the window until one job is dispatched.
func (d *dispatcher) dispatches(t *testing.T) {
	t.Helper()
	d.route.Resize(4)
	for begin := time.Now(); d.dispatched == 0; d.fill(t.Context()) {
		if broker.Wait(t.Context(), 20*time.Millisecond) != nil || time.Since(begin) > brokertest.Patience {
			t.Fatal("the job is not dispatched")
		}
	}
}

// TestAJobThatTheLeaderStoresLaterIsKept proves that a job stays in the index until the leader has
// stored it; the ordered consumer may run on another server.
func TestAJobThatTheLeaderStoresLaterIsKept(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		d := notifiedEarly(t, open(t))
		d.route.Resize(4)
		d.fill(t.Context())
		if d.dispatched != 0 || d.route.backlog.tenants() != 1 {
			t.Fatalf("%d dispatched, %d tenants are known", d.dispatched, d.route.backlog.tenants())
		}
		d.route.Resize(noReadyJobs)
		wait(t, d.q)
		d.dispatches(t)
	})
}

// TestAJobThatTheLeaderStoresDuringTheReadIsKept proves that confirm finds a job that the leader
// stored after the first lookup.
func TestAJobThatTheLeaderStoresDuringTheReadIsKept(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	d := notifiedEarly(t, b)
	// As if the first lookup had come before this.
	stored := wait(t, d.q)
	turn, ok := d.route.backlog.next(time.Now())
	if !ok {
		t.Fatal("no job is known")
	}
	found, err := d.jobs.confirm(t.Context(), b.Names().Wait(), turn.seq)
	if err != nil || found.Subject != b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", stored.GetId()) {
		t.Errorf("found %q, %v", found.Subject, err)
	}
}

// TestABacklogThatIsCreatedAgainIsReadAgain proves that a recreated stream invalidates the index.
func TestABacklogThatIsCreatedAgainIsReadAgain(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	q, _ := idle(t, b)
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	d := &dispatcher{q: q, route: r, jobs: jobDispatcher{q: q, route: r}, index: indexing{route: r, logger: brokertest.Logger(t)}, logger: brokertest.Logger(t)}
	defer d.index.ending.Wait()
	defer d.index.clear()
	begin := func() {
		t.Helper()
		if ok, err := d.index.begin(t.Context(), time.Now()); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	begin()
	reading := r.backlog.readings
	for seq := range uint64(3) {
		r.backlog.add(reading, "acme", 1+seq)
		r.backlog.add(reading, "other", 100+seq)
	}
	if err := errors.Join(b.JetStream().DeleteStream(t.Context(), b.Names().Wait()), b.Streams().Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	wait(t, q)
	r.Resize(4)
	d.fill(t.Context())
	if n := r.backlog.tenants(); n != 0 || d.dispatched != 0 || d.index.stop != nil {
		t.Fatalf("%d dispatched; %d tenants of the stream before are known", d.dispatched, n)
	}
	begin()
	d.dispatches(t)
}

// TestATenantThatIsPassedOverIsNoBacklog proves that a tenant at its limit of dead letters gets no
// job ready and does not send other tenants' jobs to the backlog. Its own new jobs go there if they
// reach the dispatching replica, and retries of dead letters do in any replica.
func TestATenantThatIsPassedOverIsNoBacklog(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	q, cfg := idle(t, b)
	second, _ := idle(t, b)
	listen(t, second)
	cfg.Limits.Tenant.MaxDeadLetters = 1
	waiting := wait(t, q)
	item, err := q.Items.Find(t.Context(), joblog.NameOf(waiting))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), nats.NewMsg(b.Names().DeadLetter(subject.Video, "acme", "video_1"))); err != nil {
		t.Fatal(err)
	}
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	d := &dispatcher{q: q, route: r, jobs: jobDispatcher{q: q, route: r}, logger: brokertest.Logger(t)}
	reading := r.backlog.clear(time.Now())
	r.backlog.end(reading)
	r.backlog.add(reading, "acme", item.Seq)
	r.lease.Take(time.Now(), true)
	if !r.hasBacklog("other", time.Now()) {
		t.Fatal("a job waits, and is no backlog")
	}
	r.Resize(4)
	hears := second.Route(subject.Video, config.SandboxVideoRoute)
	hears.Resize(4)
	d.fill(t.Context())
	now := time.Now()
	if n := r.backlog.tenants(); n != 1 || d.dispatched != 0 {
		t.Fatalf("%d jobs of a tenant without room for dead letters are dispatched; %d tenants wait", d.dispatched, n)
	}
	d.report(now)
	<-hears.backlog.signal // it has received the claim
	for _, row := range []struct {
		replica               *Queue
		tenant, retryOf, want string
	}{
		{q, "acme", "", b.Names().Wait()},
		{q, "other", "", b.Names().Work()},
		{q, "other", "video_old", b.Names().Wait()},
		{second, "other", "", b.Names().Work()},
		{second, "acme", "video_old", b.Names().Wait()},
	} {
		waiting.Tenant, waiting.RetryOf = row.tenant, row.retryOf
		place, done := row.replica.choosePlace(waiting)
		done(false)
		if place.stream != row.want {
			t.Errorf("while acme is passed over, a job of %s with retry_of %q goes into %s", row.tenant, row.retryOf, place.stream)
		}
	}
	d.report(now.Add(congestedFor))
	if _, congested, _ := r.lease.Holder(now); congested {
		t.Error("the other replicas are told that the route is congested, and its ready window is empty")
	}
	r.backlog.add(reading, "other", item.Seq+1)
	if !r.hasBacklog("third", now) {
		t.Error("a tenant that is not passed over is no backlog either")
	}
}

// listen makes a replica receive the claims of others until the test ends.
func listen(t testing.TB, q *Queue) {
	t.Helper()
	silence := q.claims.ListenRemaining(time.Now())
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		q.Run(ctx, brokertest.Logger(t))
	}()
	t.Cleanup(func() { stop(); <-stopped })
	for q.claims.ListenRemaining(time.Now()) == silence {
		if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestAFullWindowIsNoFailure proves that a failure ends when the window is full, because nothing is
// tried, and otherwise lasts until a dispatch succeeds.
func TestAFullWindowIsNoFailure(t *testing.T) {
	t.Parallel()
	q, _ := idle(t, brokertest.Single(t))
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	now := time.Now()
	d := &dispatcher{q: q, route: r, jobs: jobDispatcher{q: q, route: r}, failed: now.Add(-failingAfter)}
	reading := r.backlog.clear(now)
	r.backlog.add(reading, "acme", 1)
	next, _ := r.backlog.next(now)
	r.backlog.putBack(next, time.Hour)
	r.Resize(1)
	if d.fill(t.Context()); d.failed.IsZero() {
		t.Error("a job waits for the next try of its dispatch, and the failure is forgotten")
	}
	r.Resize(noReadyJobs)
	if d.fill(t.Context()); !d.failed.IsZero() {
		t.Errorf("the window is full, and the replica says that it fails, since %s", time.Since(d.failed))
	}
}

// TestAnItemThatIsTooLargeToDispatchBlocksOnlyItsOwn proves that an item whose copy exceeds
// max_payload is postponed. As a failure, it would end every fill of the route.
func TestAnItemThatIsTooLargeToDispatchBlocksOnlyItsOwn(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: brokertest.AloneOf(t, most).ClientURL(), Logger: brokertest.Logger(t)})
	q, _ := idle(t, b)
	m := jobDispatcher{q: q, route: q.Route(subject.Video, config.SandboxVideoRoute)}
	n := subject.WorkName{Kind: subject.Video, Route: config.SandboxVideoRoute, Tenant: "acme", ID: "video_1"}
	v, err := m.enqueue(t.Context(), n, Item{Stored: broker.Stored{Data: make([]byte, most)}}, "7")
	if v != blocked || !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("verdict %d, %v", v, err)
	}
	// Put refuses items that could not be dispatched.
	r, err := q.Reserve(&genbusv1.WorkItem{Kind: "video", Route: n.Route, Tenant: n.Tenant, Id: n.ID, Body: make([]byte, most-128)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Done(false)
	if _, err := r.Put(t.Context()); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("an item that just fits: %v", err)
	}
}

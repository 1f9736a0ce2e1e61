package pool_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

// queue is a pool of one upstream with limited slots per key, and the jobs that wait for one.
type queue struct {
	t       *testing.T
	pool    *pool.Pool
	chooser *pool.Chooser

	mu    sync.Mutex // timers wake jobs concurrently
	woken []string
}

func newQueue(t *testing.T, slots int, keys ...string) *queue {
	t.Helper()
	p := pool.New(config.Upstreams{"a": with(slotsOf(slots), keys...)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	return &queue{t: t, pool: p, chooser: p.Chooser(along("a"))}
}

func slotsOf(n int) func(*config.Upstream) {
	return func(u *config.Upstream) { u.MaxConcurrent = n }
}

// wait queues a job for a slot and returns its waiter.
func (q *queue) wait(name string) *pool.Waiter {
	q.t.Helper()
	w := pool.NewWaiter(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.woken = append(q.woken, name)
	})
	q.busy(w)
	return w
}

// busy checks that no slot is free for a waiter, or for a new job if w is nil.
func (q *queue) busy(w *pool.Waiter) {
	q.t.Helper()
	if l, err := q.chooser.AcquireInTurn(new(pool.Tried), w); !errors.As(err, new(*pool.BusyError)) {
		q.t.Fatalf("got %v, %v; want busy", l, err)
	}
}

func (q *queue) take(w *pool.Waiter) *pool.Slot {
	q.t.Helper()
	l, err := q.chooser.AcquireInTurn(new(pool.Tried), w)
	if err != nil {
		q.t.Fatalf("no slot: %v", err)
	}
	return l
}

// expect checks which jobs were woken since the last call.
func (q *queue) expect(names ...string) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.woken, names) {
		q.t.Errorf("woken are %v, want %v", q.woken, names)
	}
	q.woken = nil
}

// TestWaitersAreServedInOrder proves that free slots go to waiting jobs in order, and that no new
// job overtakes them.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 2)
		first, second := q.take(nil), q.take(nil)
		a, b, c := q.wait("a"), q.wait("b"), q.wait("c")
		q.expect()
		first.Release()
		q.expect("a")
		q.busy(nil)
		q.busy(b) // acquired without being woken; keeps its place
		first = q.take(a)
		q.expect()
		second.Release()
		first.Release()
		q.expect("b", "c")
		q.take(c)
		q.take(b)
		q.busy(nil)
	})
}

// TestAJobThatDoesNotComeIsPassedOver proves that a job that does not use its reservation keeps its
// place.
func TestAJobThatDoesNotComeIsPassedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		slot := q.take(nil)
		a, b := q.wait("a"), q.wait("b")
		q.wait("c")
		slot.Release()
		q.expect("a")
		pass(time.Second)
		synctest.Wait()
		q.expect("b")
		q.busy(a)
		slot = q.take(b)
		slot.Release()
		q.expect("a") // not c
		slot = q.take(a)
		pass(time.Minute) // the reservation ended with the acquire
		synctest.Wait()
		q.expect()
		q.busy(nil)
		slot.Release()
	})
}

// TestAJobThatStopsWaiting proves that Cancel passes the slot on.
func TestAJobThatStopsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		slot := q.take(nil)
		a, b, c := q.wait("a"), q.wait("b"), q.wait("c")
		b.Cancel()
		slot.Release()
		q.expect("a")
		a.Cancel()
		a.Cancel()
		q.expect("c")
		q.take(c).Release()
		q.take(nil)
		q.wait("b again")
		q.expect()
		pool.NewWaiter(nil).Cancel()
		(*pool.Waiter)(nil).Cancel()
	})
}

// TestAJobThatWaitsForSeveralKeys proves that a job takes the first free slot and leaves the other
// queues.
func TestAJobThatWaitsForSeveralKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1, "1", "2")
		first, second := q.take(nil), q.take(nil)
		a := q.wait("a")
		q.wait("b")
		second.Release()
		q.expect("a")
		if l := q.take(a); l.UpstreamKey().Key != "2" {
			t.Errorf("it has key %s", l.UpstreamKey().Key)
		}
		first.Release()
		q.expect("b")
	})
}

// TestASlotThatCannotBeUsed proves that the slot is passed on if the key was paused in the
// meantime.
func TestASlotThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1)
		slot := q.take(nil)
		a, b := q.wait("a"), q.wait("b")
		slot.Report(q.chooser, aJob, asking(slowDown, 5*time.Second))
		slot.Release()
		q.expect("a")
		q.busy(a)
		q.expect("b")
		q.busy(b)
		pass(5 * time.Second)
		slot = q.take(a)
		q.busy(b)
		slot.Release()
		q.expect("b")
	})
}

// TestMoreSlotsAfterAReload proves that waiting jobs are woken by more slots and by a removed key.
func TestMoreSlotsAfterAReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, 1, "1")
		q.take(nil)
		a, b := q.wait("a"), q.wait("b")
		q.pool.Reload(config.Upstreams{"a": with(slotsOf(2), "1")}, config.Retry{})
		q.expect("a")
		q.take(a)
		q.pool.Reload(config.Upstreams{"a": with(slotsOf(1), "2")}, config.Retry{})
		q.expect("b")
		q.take(b)
		c := q.wait("c")
		q.pool.Reload(config.Upstreams{"a": with(slotsOf(1), "2", "3")}, config.Retry{})
		q.expect("c")
		q.take(c)
	})
}

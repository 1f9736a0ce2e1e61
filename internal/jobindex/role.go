package jobindex

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// listenFor is how long a starting replica listens for claims before it may keep the index.
	// spread bounds the random delay that follows. Because of this delay, only the first two of
	// many replicas that start together become keepers.
	listenFor = 250 * time.Millisecond
	spread    = time.Second / 4
	// lookEvery is the interval at which a replica decides whether to keep the index.
	lookEvery = 250 * time.Millisecond
	// lastAfter is how long a replica in mode Off waits for another keeper before it keeps the
	// index itself.
	lastAfter = 30 * time.Second
)

// keepers lists the keys of the leases. With two keepers, lists keep working when one dies.
var keepers = []string{"0", "1"}

// role decides whether this replica keeps the index. There are two leases, and their holders keep
// it. A lease's flag reports whether the holder's index is ready. Having more or fewer than two
// keepers for a while does no harm.
type role struct {
	keeper   *keeper
	metrics  *telemetry.Metrics
	b        *broker.Broker
	logger   *slog.Logger
	mode     Mode
	able     func() error
	leases   map[string]*fleet.Lease
	claims   *fleet.Claims
	changed  chan struct{} // receives a value when another replica's claim changes a lease
	stopping atomic.Bool   // this replica is stopping
}

func newRole(o Options, k *keeper) *role {
	r := &role{
		keeper: k, metrics: o.Metrics, b: o.Broker, logger: o.Logger, mode: o.Mode, able: o.Able, leases: map[string]*fleet.Lease{},
		changed: make(chan struct{}, 1),
	}
	for _, key := range keepers {
		r.leases[key] = fleet.NewLease(o.Log.Writer())
	}
	r.claims = fleet.NewClaims(fleet.ClaimsOptions{
		Conn: o.Broker.Conn(), Subject: o.Broker.Names().IndexKeepers(), Self: o.Log.Writer(), Listen: listenFor,
		All:     func() map[string]*fleet.Lease { return r.leases },
		Lease:   func(key string) *fleet.Lease { return r.leases[key] },
		Changed: func(string) { r.ring() },
	})
	return r
}

func (r *role) ring() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// run keeps the index whenever this replica should keep it, until ctx ends.
func (r *role) run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { r.claims.Run(ctx, r.logger) })
	r.b.OnReconnect(func(context.Context) { r.claims.Listen() })
	k := keeping{role: r}
	if r.mode != Off {
		k.from = time.Now().Add(rand.N(spread))
	}
	defer k.stop()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		k.look(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-ticker.C:
		}
	}
}

// keeping is the state of run.
type keeping struct {
	*role
	// from is the earliest time at which to take a vacant lease. It is zero if no lease was
	// available at the last look.
	from time.Time
	end  func()    // stops keeping the index; nil while this replica does not keep it
	able time.Time // last time at which this replica was able to keep the index
}

// look starts or stops keeping the index if necessary, and reports its state.
func (k *keeping) look(ctx context.Context, now time.Time) {
	key := k.take(now)
	if key != "" && k.yields(key, now) {
		k.claims.Release(key)
		key = ""
	}
	if keep := key != "" || k.mode == On || k.end != nil && k.stopping.Load(); keep != (k.end != nil) {
		if keep {
			k.begin(ctx)
		} else {
			k.stop()
		}
	}
	ready := k.keeper.ready() != nil
	if key != "" && k.leases[key].Report(now, ready, k.fails(now, ready)) {
		k.claims.Announce(key)
	}
	k.keeper.report()
	k.metrics.IndexKeepers(k.count(now))
}

// take returns the key of the lease that this replica holds, or an empty string. If a lease is
// vacant, take may acquire it.
func (k *keeping) take(now time.Time) string {
	var vacant []string
	for _, key := range keepers {
		if k.leases[key].Held() {
			return key
		}
		failing, _ := k.leases[key].Failing(now)
		if k.leases[key].Vacant(now) && (failing == "" || k.role.able() == nil) {
			vacant = append(vacant, key)
		}
	}
	wait := 5*spread + rand.N(8*spread) // replicas repeat their claims every second
	switch {
	case len(vacant) == 0, k.mode == Off && len(vacant) < len(keepers), k.stopping.Load(), k.b.Trouble() != nil:
		k.from = time.Time{}
		return ""
	case k.from.IsZero() && k.mode == Off:
		k.from = now.Add(lastAfter + wait)
		return ""
	case k.from.IsZero():
		k.from = now.Add(wait)
		return ""
	case now.Before(k.from), k.claims.ListenRemaining(now) > 0:
		return ""
	}
	key := vacant[rand.N(len(vacant))]
	if !k.leases[key].Take(now, false) {
		return ""
	}
	if k.stopping.Load() {
		k.claims.Release(key)
		return ""
	}
	k.claims.Announce(key)
	return key
}

// yields reports whether this replica, in mode Off, leaves the index to another keeper.
func (k *keeping) yields(key string, now time.Time) bool {
	if k.mode != Off {
		return false
	}
	for _, other := range keepers {
		if _, ready, held := k.leases[other].Holder(now); other != key && held && ready {
			return true
		}
	}
	return false
}

func (k *keeping) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { k.keeper.run(ctx) })
	k.end = func() { cancel(); reading.Wait() }
	k.able = time.Now()
	k.logger.Info("started serving the job index")
}

func (k *keeping) stop() {
	if k.end != nil {
		k.end()
		k.end, k.from = nil, time.Time{}
		k.logger.Info("stopped serving the job index")
	}
}

// failsAfter is how long a keeper may be without a reading that progresses.
const failsAfter = 20 * time.Second

// fails reports whether another replica should take over the index.
func (k *keeping) fails(now time.Time, ready bool) bool {
	if r := k.keeper.current.Load(); ready || r != nil && r.goesOn(now) {
		k.able = now
	}
	return k.role.able() != nil || now.Sub(k.able) > failsAfter
}

// count returns the number of known keepers.
func (r *role) count(now time.Time) (n int) {
	for _, l := range r.leases {
		if _, _, held := l.Holder(now); held {
			n++
		}
	}
	return n
}

// handOver lets another replica take over the index because this one is stopping.
func (r *role) handOver() {
	r.stopping.Store(true)
	for _, key := range keepers {
		r.claims.Release(key)
	}
}

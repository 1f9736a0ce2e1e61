package pool

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/genbus/genbus/internal/config"
)

// ErrExhausted means that a job has tried every key of its route.
var ErrExhausted = errors.New("every key of the route was tried")

// BusyError means that keys are left to try, but none of them accepts the job now.
type BusyError struct {
	// Until is the earliest time to try again; it is in the future.
	Until time.Time
	// pause is the pause that the upstream asked for, or nil.
	pause *pause
}

// Error includes Until.
func (e *BusyError) Error() string {
	return "every key left to try is busy until " + e.Until.Format(time.RFC3339Nano)
}

// Tried records the keys that one job has tried in this round. The zero value starts a round. It
// belongs to one job at a time.
type Tried struct {
	// SentBefore is true if the job was sent before this round.
	SentBefore bool
	// RefusedForNow is true if a key refused a video temporarily. The video is retried there
	// instead of being sent to an upstream whose breaker is open for creates.
	RefusedForNow bool
	keys          []UpstreamKey // in order
}

// retry reports whether the job was sent before, in this round or an earlier one.
func (t *Tried) retry() bool { return t.SentBefore || len(t.keys) > 0 }

func (t *Tried) has(a UpstreamKey) bool { return slices.Contains(t.keys, a) }

// Chooser selects keys for the jobs of one route, among the upstreams that the pool currently has.
// It is safe for concurrent use.
type Chooser struct {
	pool       *Pool
	route      config.Route
	targets    []target               // in the route's order, or by descending weight
	weights    int                    // their sum; 0 without weights
	has        func(UpstreamKey) bool // nil accepts every key
	generation int                    // of the clients' configuration
}

type target struct {
	upstream string
	weight   int
}

// Chooser returns the chooser of a route for clients of the pool's current configuration. The
// chooser skips upstreams that the pool does not have, because a job may have started with an older
// configuration.
func (p *Pool) Chooser(r config.Route) *Chooser {
	p.mu.Lock()
	c := &Chooser{pool: p, route: r, generation: p.generation}
	p.mu.Unlock()
	for _, t := range r.Upstreams {
		c.targets = append(c.targets, target{t.Name, t.Weight})
		c.weights += t.Weight
	}
	slices.SortStableFunc(c.targets, func(a, b target) int { return cmp.Compare(b.weight, a.weight) })
	return c
}

// Next returns the chooser for clients of the configuration that the pool's next Reload will apply.
func (c *Chooser) Next() *Chooser {
	next := *c
	next.generation++
	return &next
}

// Among returns a chooser limited to keys for which has returns true. Clients belong to one
// configuration, while the pool may already have the keys of a later one. has runs with the pool
// locked, so it must not block or call the pool.
func (c *Chooser) Among(has func(UpstreamKey) bool) *Chooser {
	among := *c
	among.has = has
	return &among
}

// Acquire is like AcquireInTurn but without a waiter.
func (c *Chooser) Acquire(t *Tried) (*Slot, error) { return c.AcquireInTurn(t, nil) }

// AcquireInTurn returns a slot with a key that the job has not tried, and records the key in t. It
// does not block. If all slots of a key are in use, the job's waiter (in) queues for one and is
// woken when the job should try again. If in is nil, the job is not queued.
//
// Upstreams are tried in the route's order. With weights, the first is drawn by weight and the
// others follow by descending weight. The keys of one upstream take turns. A key in cooldown is
// used only if no other key is left, so that a route whose only key is bad fails at once. A retry
// also needs the retry budget.
//
// It fails with *BusyError or ErrExhausted.
func (c *Chooser) AcquireInTurn(t *Tried, in *Waiter) (*Slot, error) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	slot, err := c.acquire(t, in, time.Now())
	switch {
	case in == nil:
	case err == nil:
		in.cancel()
	default:
		in.returnSlot() // the reserved slot could not be used
	}
	return slot, err
}

// acquire requires the pool's lock.
func (c *Chooser) acquire(t *Tried, in *Waiter, now time.Time) (*Slot, error) {
	ready, cooling := c.untried(t, now)
	if len(ready) == 0 {
		ready, cooling = cooling, nil
	}
	if len(ready) == 0 {
		return nil, ErrExhausted
	}
	if next, ok := c.pool.budget.retry(now); t.retry() && !ok {
		c.pool.metrics.Retry(false)
		return nil, &BusyError{Until: next}
	}
	ready, next := c.forCreates(t, ready, cooling, now)
	if len(ready) == 0 && t.RefusedForNow {
		return nil, ErrExhausted
	}
	busy := &BusyError{Until: next}
	for _, k := range ready {
		done, free := k.take(in, now)
		if done != nil {
			return c.slot(t, k, done, now), nil
		}
		if in != nil && k.full(in) {
			in.enqueue(c.pool, k)
		}
		if busy.Until.IsZero() || free.Before(busy.Until) {
			busy.Until, busy.pause = free, k.requestedPause(now)
		}
	}
	for _, k := range cooling {
		busy.Until = earlier(busy.Until, k.coolingUntil)
	}
	return nil, busy
}

// untried returns the keys left for a job, in the order to try them.
func (c *Chooser) untried(t *Tried, now time.Time) (ready, cooling []*key) {
	for _, target := range c.order(t) {
		s := c.pool.services[target.upstream]
		if s == nil {
			continue
		}
		for k := range s.inTurn {
			switch {
			case t.has(k.id), c.has != nil && !c.has(k.id):
			case k.coolingUntil.After(now):
				cooling = append(cooling, k)
			default:
				ready = append(ready, k)
			}
		}
	}
	return ready, cooling
}

// order returns the targets to try. With weights, it draws the first one at random if the job has
// tried no key yet.
func (c *Chooser) order(t *Tried) []target {
	if c.weights == 0 || len(t.keys) > 0 {
		return c.targets
	}
	drawn, i := rand.IntN(c.weights), 0
	for drawn >= c.targets[i].weight {
		drawn -= c.targets[i].weight
		i++
	}
	return slices.Concat(c.targets[i:i+1], c.targets[:i], c.targets[i+1:])
}

func (c *Chooser) slot(t *Tried, k *key, done func(error), now time.Time) *Slot {
	l := &Slot{
		pool: c.pool, id: k.id, service: k.service, key: k, began: now,
		done: done, probe: k.service.breaker.State() == gobreaker.StateHalfOpen,
	}
	if l.probe {
		// A slow probe must not keep other jobs away.
		l.patience = time.AfterFunc(max(k.service.breaker.openFor, probePatience), l.passOn)
	}
	l.trial = c.route.Kind == config.KindVideo && k.service.creates.try(c.route.Timeouts.Create, now)
	l.count(1)
	if t.retry() {
		c.pool.budget.spend(now)
		c.pool.metrics.Retry(true)
	} else {
		c.pool.budget.first()
	}
	if n := len(t.keys); n > 0 && t.keys[n-1].Upstream != k.id.Upstream {
		if s := c.pool.services[t.keys[n-1].Upstream]; s != nil {
			s.metrics.FailedOver()
		}
	}
	t.keys = append(t.keys, k.id)
	return l
}

// earlier returns the earlier time, or b if a is zero.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

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

// ErrExhausted says that a job has tried every key of its route.
var ErrExhausted = errors.New("every key of the route was tried")

// BusyError says that there are keys that a job has not tried, and that none
// of them takes it now.
type BusyError struct {
	// Until is the earliest moment when one may; it lies in the future.
	Until time.Time
	// told is why, where the upstream has asked for the wait; nil otherwise.
	told *pause
}

// Error gives the moment.
func (e *BusyError) Error() string {
	return "every key left to try is busy until " + e.Until.Format(time.RFC3339Nano)
}

// Tried is what one job has tried in this round. The zero value is a new round.
// It belongs to one job at a time.
type Tried struct {
	// SentBefore is true for a job that was sent before this round.
	SentBefore bool
	// RefusedForNow is set when a key refused a video temporarily. The video retries there
	// instead of going to an upstream whose breaker is open for creates.
	RefusedForNow bool
	keys          []UpstreamKey // in the order of the tries
}

// retry reports whether the next try is not the job's first.
func (t *Tried) retry() bool { return t.SentBefore || len(t.keys) > 0 }

func (t *Tried) has(a UpstreamKey) bool { return slices.Contains(t.keys, a) }

// Chooser finds keys for the jobs of one route, among the upstreams that the
// pool has at that moment. It is safe for concurrent use.
type Chooser struct {
	pool       *Pool
	route      config.Route
	targets    []target               // in the route's order, or the heaviest first
	weights    int                    // their sum; 0 for the route's order
	has        func(UpstreamKey) bool // nil: every key
	generation int                    // of the configuration that the clients are of
}

type target struct {
	upstream string
	weight   int
}

// Chooser makes the chooser of a route, for clients of the configuration that the pool
// has now. Upstreams that the pool does not have are passed over; a valid configuration
// names none, but a job may have begun with an older one.
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

// Next is the chooser for clients of the configuration that the pool's next Reload takes.
func (c *Chooser) Next() *Chooser {
	next := *c
	next.generation++
	return &next
}

// Among is the chooser among those of its keys that has says yes to. What is to be
// called has clients of one configuration, and the pool may have the keys of a later
// one by now. has is called while the pool is locked: it does not block, and calls
// nothing of the pool.
func (c *Chooser) Among(has func(UpstreamKey) bool) *Chooser {
	among := *c
	among.has = has
	return &among
}

// Acquire is AcquireInTurn for a job that does not wait in turn.
func (c *Chooser) Acquire(t *Tried) (*Slot, error) { return c.AcquireInTurn(t, nil) }

// AcquireInTurn gives a place with a key that the job has not tried, and counts
// it as tried. It does not block. Where all slots of a key are in use, the waiter waits
// for one, and its job is woken when it should acquire again; nil does not wait.
//
// Upstreams are taken in the route's order; with weights, the first is drawn by
// weight and the others follow, the heaviest first. The keys of one upstream
// take turns. Keys that cool down are used when no other is left, so that a
// route with nothing but a bad key says so at once. A job that was sent before
// needs a place in the budget of retries, too.
//
// The error is a *BusyError or ErrExhausted.
func (c *Chooser) AcquireInTurn(t *Tried, in *Waiter) (*Slot, error) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	slot, err := c.acquire(t, in, time.Now())
	switch {
	case in == nil:
	case err == nil:
		in.leave()
	default:
		in.giveBack() // it could not be used
	}
	return slot, err
}

// acquire needs the pool's lock.
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
			busy.Until, busy.told = free, k.told(now)
		}
	}
	for _, k := range cooling {
		busy.Until = earlier(busy.Until, k.coolingUntil)
	}
	return nil, busy
}

// untried gives the keys that are left for a job, in the order in which it
// should try them.
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

// order draws where a job begins. One that has begun goes on with the heaviest.
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
		// A probe that takes long must not keep everybody else away.
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

// earlier gives the earlier moment; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

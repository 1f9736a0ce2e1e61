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

// ErrExhausted says that a job has tried every account of its route.
var ErrExhausted = errors.New("every account of the route was tried")

// BusyError says that there are accounts that a job has not tried, and that none
// of them takes it now.
type BusyError struct {
	// Until is the earliest moment when one may; it lies in the future.
	Until time.Time
	// told is why, where the upstream has asked for the wait; nil otherwise.
	told *pause
}

// Error gives the moment.
func (e *BusyError) Error() string {
	return "every account left to try is busy until " + e.Until.Format(time.RFC3339Nano)
}

// Tried is what one job has tried in this round. The zero value is a new round.
// It belongs to one job at a time.
type Tried struct {
	// SentBefore is true for a job that was sent before this round.
	SentBefore bool
	// RefusedForNow is set when an account refused a video temporarily. The video retries there
	// instead of going to an upstream whose breaker is open for creates.
	RefusedForNow bool
	accounts      []Account // in the order of the tries
}

// retry reports whether the next try is not the job's first.
func (t *Tried) retry() bool { return t.SentBefore || len(t.accounts) > 0 }

func (t *Tried) has(a Account) bool { return slices.Contains(t.accounts, a) }

// Chooser finds accounts for the jobs of one route, among the upstreams that the
// pool has at that moment. It is safe for concurrent use.
type Chooser struct {
	pool       *Pool
	route      config.Route
	targets    []target           // in the route's order, or the heaviest first
	weights    int                // their sum; 0 for the route's order
	has        func(Account) bool // nil: every account
	generation int                // of the configuration that the clients are of
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

// Among is the chooser among those of its accounts that has says yes to. What is to be
// called has clients of one configuration, and the pool may have the accounts of a later
// one by now. has is called while the pool is locked: it does not block, and calls
// nothing of the pool.
func (c *Chooser) Among(has func(Account) bool) *Chooser {
	among := *c
	among.has = has
	return &among
}

// Acquire is AcquireInTurn for a job that does not wait in turn.
func (c *Chooser) Acquire(t *Tried) (*Lease, error) { return c.AcquireInTurn(t, nil) }

// AcquireInTurn gives a place with an account that the job has not tried, and counts
// it as tried. It does not block. Where all slots of an account are in use, the ticket waits
// for one, and its job is woken when it should acquire again; nil does not wait.
//
// Upstreams are taken in the route's order; with weights, the first is drawn by
// weight and the others follow, the heaviest first. The keys of one upstream
// take turns. Keys that cool down are used when no other is left, so that a
// route with nothing but a bad key says so at once. A job that was sent before
// needs a place in the budget of retries, too.
//
// The error is a *BusyError or ErrExhausted.
func (c *Chooser) AcquireInTurn(t *Tried, in *Ticket) (*Lease, error) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	lease, err := c.acquire(t, in, time.Now())
	switch {
	case in == nil:
	case err == nil:
		in.leave()
	default:
		in.giveBack() // it could not be used
	}
	return lease, err
}

// acquire needs the pool's lock.
func (c *Chooser) acquire(t *Tried, in *Ticket, now time.Time) (*Lease, error) {
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
			return c.lease(t, k, done, now), nil
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
			case t.has(k.account), c.has != nil && !c.has(k.account):
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
	if c.weights == 0 || len(t.accounts) > 0 {
		return c.targets
	}
	drawn, i := rand.IntN(c.weights), 0
	for drawn >= c.targets[i].weight {
		drawn -= c.targets[i].weight
		i++
	}
	return slices.Concat(c.targets[i:i+1], c.targets[:i], c.targets[i+1:])
}

func (c *Chooser) lease(t *Tried, k *key, done func(error), now time.Time) *Lease {
	l := &Lease{
		pool: c.pool, account: k.account, service: k.service, key: k, began: now,
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
	if n := len(t.accounts); n > 0 && t.accounts[n-1].Upstream != k.account.Upstream {
		if s := c.pool.services[t.accounts[n-1].Upstream]; s != nil {
			s.metrics.FailedOver()
		}
	}
	t.accounts = append(t.accounts, k.account)
	return l
}

// earlier gives the earlier moment; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

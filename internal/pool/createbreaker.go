package pool

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// maxTrialWait bounds the wait between two trial creates.
const maxTrialWait = 10 * time.Minute

// createBreaker is the circuit breaker for video creates on routes with several upstreams. A failed
// create may be charged for, and its job is lost, so the first failure opens the breaker. While it
// is open, all replicas together send the upstream one trial create per wait. Each lost trial
// doubles the wait. A successful create closes the breaker. Pool.mu guards it.
type createBreaker struct {
	service  *service
	wait     time.Duration // between two trials; zero while closed
	until    time.Time     // earliest next trial
	failed   time.Time     // last known failure
	shown    bool          // a create skipped the upstream, so the log and the gauge report it as open
	since    time.Time     // when shown was set
	announce func(peerNotification)
}

func (c *createBreaker) closed() bool { return c.wait == 0 }

// try reports whether a create is a trial. If one is due, this create becomes the trial, and try
// holds back the next trial until this one should have ended.
func (c *createBreaker) try(takes time.Duration, now time.Time) bool {
	if c.closed() || now.Before(c.until) {
		return false
	}
	patience := max(c.wait, takes+probePatience)
	c.until = now.Add(patience)
	c.announce(peerNotification{Upstream: c.service.name, Wait: c.wait, Next: patience})
	return true
}

// report records the outcome of a create that began at began. trial is true if it is a trial.
func (c *createBreaker) report(sent upstream.Submission, trial bool, began, now time.Time) {
	failed := errors.Is(health(sent.Err), errTrouble) && sent.Err.Written
	switch {
	case sent.Err == nil && (trial || !c.closed() && began.After(c.failed)):
		c.apply(peerNotification{})
		c.announce(peerNotification{Upstream: c.service.name})
	case failed:
		c.fail(trial && sent.Verdict == upstream.Unknown, now)
	case trial: // refused; no information about creates
		c.unsent(now)
	}
}

// unsent makes the next create the trial, because this one had no result.
func (c *createBreaker) unsent(now time.Time) {
	c.until = now
	c.announce(peerNotification{Upstream: c.service.name, Wait: c.wait})
}

// fail opens the breaker or keeps it open. Only lost trials make the wait longer, because creates
// that were in flight when the breaker opened, and refusals for lack of capacity, add no
// information.
func (c *createBreaker) fail(longer bool, now time.Time) {
	first := c.service.breaks.OpenFor
	if first <= 0 || c.service.breaks.Failures == 0 {
		return
	}
	before := c.wait
	switch {
	case c.closed():
		c.wait = first
	case longer:
		c.wait = min(2*c.wait, max(maxTrialWait, first))
	}
	if longer {
		c.service.logger.Warn("could not create trial task at upstream", "upstream", c.service.name, "next", c.wait.String(), telemetry.KeyError, c.service.trouble)
	}
	c.failed, c.until = now, now.Add(jittered(c.wait))
	if c.wait != before {
		c.announce(peerNotification{Upstream: c.service.name, Wait: c.wait, Next: c.wait})
	}
}

// apply adopts the state from a peer notification.
func (c *createBreaker) apply(n peerNotification) {
	if n.Wait <= 0 {
		c.wait, c.until = 0, time.Time{}
		c.show(false)
		return
	}
	limit := max(maxTrialWait, c.service.breaks.OpenFor)
	now := time.Now()
	c.wait, c.failed = min(n.Wait, limit), now
	c.until = now.Add(jittered(min(max(n.Next, 0), limit)))
}

// show reports the breaker as open or closed in the log and the gauge.
func (c *createBreaker) show(open bool) {
	if c.shown == open {
		return
	}
	c.shown = open
	c.service.showBreaker()
	if open {
		c.since = time.Now()
		c.service.logger.Warn("upstream breaker opened for creates", "upstream", c.service.name,
			"for", c.wait.String(), telemetry.KeyError, c.service.trouble)
		return
	}
	c.service.logger.Info("upstream breaker closed for creates", "upstream", c.service.name)
}

// jittered adds up to a tenth of d, so that replicas do not send trials at the same moment.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// forCreates filters the ready keys for a video create. It drops keys whose create breaker is open,
// unless a trial is due. next is the time of the earliest trial, or zero. If no key has a closed
// breaker, all keys stay, ordered by wait. Keys in cooldown count as alternatives, because a
// refused create loses no job. For a job that was refused for now, keys are dropped even if no key
// has a closed breaker.
func (c *Chooser) forCreates(t *Tried, ready, cooling []*key, now time.Time) (use []*key, next time.Time) {
	closed := func(k *key) bool { return k.service.creates.closed() }
	if c.route.Kind != config.KindVideo || len(c.targets) < 2 {
		return ready, time.Time{}
	}
	if !t.RefusedForNow && !slices.ContainsFunc(ready, closed) && !slices.ContainsFunc(cooling, closed) {
		slices.SortStableFunc(ready, func(a, b *key) int { return cmp.Compare(a.service.creates.wait, b.service.creates.wait) })
		return ready, time.Time{}
	}
	for _, k := range ready {
		switch until := k.service.creates.until; {
		case closed(k), !now.Before(until):
			use = append(use, k)
		default:
			k.service.creates.show(true)
			next = earlier(next, until)
		}
	}
	return use, next
}

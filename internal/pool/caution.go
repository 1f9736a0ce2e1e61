package pool

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// maxCaution bounds the time between two creates that try an upstream.
const maxCaution = 10 * time.Minute

// caution is the breaker of an upstream for the creates of routes that have another one: such a
// create that fails may be paid for and is lost to its job, so the first failure opens it. Until
// a create goes well, one may try the upstream at the end of each wait, whichever replica sends
// it; a wait is twice as long as the one before. The pool's mutex guards it.
type caution struct {
	service  *service
	wait     time.Duration // between two that try; zero while creates are trusted to the upstream
	until    time.Time     // when one may try
	failed   time.Time     // when one failed last, as far as is known
	shown    bool          // creates went elsewhere because of it
	announce func(notice)
}

// trusts reports whether no create has failed since one went well.
func (c *caution) trusts() bool { return c.wait == 0 }

// try lets a create try the upstream, and keeps the others away until it has had its time, as long as
// a create takes. It reports whether the create is one that tries.
func (c *caution) try(takes time.Duration, now time.Time) bool {
	if c.trusts() || now.Before(c.until) {
		return false
	}
	patience := max(c.wait, takes+probePatience)
	c.until = now.Add(patience)
	c.announce(notice{Upstream: c.service.name, Wait: c.wait, Next: patience})
	return true
}

// report takes what became of a create that began then. tried is true for one that tries the upstream.
func (c *caution) report(sent upstream.Submission, tried bool, began, now time.Time) {
	failed := errors.Is(health(sent.Err), errTrouble) && sent.Err.Written
	switch {
	case sent.Err == nil && (tried || !c.trusts() && began.After(c.failed)):
		c.hear(notice{})
		c.announce(notice{Upstream: c.service.name})
	case failed:
		c.fail(tried && sent.Verdict == upstream.Unknown, now)
	case tried: // it was refused, or was not sent: another one may try
		c.until = now
	}
}

// fail opens it, or keeps it open. The wait grows with the creates that tried and are lost: those that
// began before it opened, and those that the upstream has no room for, say nothing new.
func (c *caution) fail(longer bool, now time.Time) {
	first := c.service.breaks.OpenFor
	if first <= 0 || c.service.breaks.Failures == 0 {
		return
	}
	before := c.wait
	switch {
	case c.trusts():
		c.wait = first
	case longer:
		c.wait = min(2*c.wait, max(maxCaution, first))
	}
	c.failed, c.until = now, now.Add(jittered(c.wait))
	if c.wait != before {
		c.announce(notice{Upstream: c.service.name, Wait: c.wait, Next: c.wait})
	}
}

// hear takes what another replica has learned.
func (c *caution) hear(n notice) {
	if n.Wait <= 0 {
		c.wait, c.until = 0, time.Time{}
		c.show(false)
		return
	}
	limit := max(maxCaution, c.service.breaks.OpenFor)
	now := time.Now()
	c.wait, c.failed = min(n.Wait, limit), now
	c.until = now.Add(jittered(min(max(n.Next, 0), limit)))
}

// show tells the log and the gauge whether creates go elsewhere.
func (c *caution) show(open bool) {
	if c.shown == open {
		return
	}
	c.shown = open
	c.service.showBreaker()
	if open {
		c.service.logger.Warn("upstream breaker opened for creates of routes that have another upstream", "upstream", c.service.name,
			"for", c.wait.String(), telemetry.KeyError, c.service.trouble)
		return
	}
	c.service.logger.Info("upstream breaker closed for creates", "upstream", c.service.name)
}

// jittered is a wait with up to a tenth more, so that replicas do not try at the same moment.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/10+1) }

// trusted leaves out the keys that a create of a video is kept from while a better one is left,
// and gives the moment when one of those may be tried; zero for none. One that cools down is better: it
// costs no job. Where all that are left have failed creates, those come first whose upstream failed fewer.
func (c *Chooser) trusted(t *Tried, ready, cooling []*key, now time.Time) (use []*key, next time.Time) {
	trusts := func(k *key) bool { return k.service.caution.trusts() }
	if c.route.Kind != config.KindVideo || len(c.targets) < 2 {
		return ready, time.Time{}
	}
	if !t.RefusedForNow && !slices.ContainsFunc(ready, trusts) && !slices.ContainsFunc(cooling, trusts) {
		slices.SortStableFunc(ready, func(a, b *key) int { return int(a.service.caution.wait - b.service.caution.wait) })
		return ready, time.Time{}
	}
	for _, k := range ready {
		switch until := k.service.caution.until; {
		case trusts(k), !now.Before(until):
			use = append(use, k)
		default:
			k.service.caution.show(true)
			next = earlier(next, until)
		}
	}
	return use, next
}

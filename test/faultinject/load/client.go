package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// client carries out one wish. Concurrent activities use separate names, because the answers for a
// name must be in the order of its requests.
type client struct {
	*Load
	wish
	random *rand.Rand
	mu     sync.Mutex
	turn   int // replica asked last
}

// answer is the result of one request.
type answer struct {
	check.Call
	retryAfter time.Duration
}

// begins records when the answer begins.
func (a *answer) begins() {
	if a.AnswerBegan.IsZero() {
		a.AnswerBegan = time.Now()
	}
}

// lost records that there was no answer.
func (a *answer) lost(err error) {
	a.Lost = err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		a.Lost = "timeout"
	}
}

// Time limits of one request.
const (
	askTimeout   = 10 * time.Second
	largeTimeout = 30 * time.Second
	chatTimeout  = 150 * time.Second
)

// live sends the wish's request and then works with its job.
func (c *client) live(ctx context.Context) {
	ctx = c.tenant.calling(ctx)
	var rival sync.WaitGroup
	defer rival.Wait()
	switch c.rival {
	case "same":
		rival.Go(func() { c.ask(ctx, c.name+" rival", c.again()) })
	case "other":
		rival.Go(func() { c.ask(ctx, c.name+" rival", c.other()) })
	}
	granted := c.ask(ctx, c.name, c.wish)
	if c.entry.op == check.OpInline || !granted.Good() {
		return
	}
	c.accepted.Add(1)
	if c.key != "" {
		granted = c.insist(ctx, granted)
	}
	if granted.Job != "" { // otherwise the job's ID is unknown
		c.stay(ctx, granted)
	}
}

// stay runs the client's activities for an accepted job, for at most Options.Life.
func (c *client) stay(ctx context.Context, granted check.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Life)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	if c.cancel > 0 {
		all.Go(func() { c.cancelAfter(ctx, granted.Job) })
	}
	if c.follow != "" {
		all.Go(func() { c.following(ctx, granted.Job) })
	}
	if c.peeks && c.tenant != c.stranger {
		all.Go(func() { c.peeking(ctx, granted.Job) })
	}
	if c.reads {
		all.Go(func() { c.reading(ctx, granted.Job) })
	}
}

// ask sends a request until it is granted or finally refused.
func (c *client) ask(ctx context.Context, name string, w wish) check.Call {
	ctx, cancel := context.WithTimeout(ctx, c.o.Patience)
	defer cancel()
	base := check.Call{
		Client: name, Series: "ask " + w.marker, Op: w.entry.op, Ingress: w.entry.ingress, Key: w.key, Marker: w.marker, Body: w.sum, Input: w.input,
	}
	limit := askTimeout
	if w.input != "" {
		limit = largeTimeout
	}
	if w.entry.op == check.OpChat || w.entry.op == check.OpInline {
		limit = chatTimeout
	}
	expires := time.Time{}
	if w.expires > 0 {
		expires = time.Now().Add(w.expires)
	}
	return c.series(ctx, base, limit, func(ctx context.Context, at int, a *answer) { c.send(ctx, at, w, expires, a) })
}

// insist sends the same request again, which must attach, and a different body with the same key,
// which must be refused.
func (c *client) insist(ctx context.Context, granted check.Call) check.Call {
	if c.repeat {
		if !faultinject.Pause(ctx, time.Duration(c.random.IntN(3000))*time.Millisecond) {
			return granted
		}
		if again := c.ask(ctx, c.name, c.again()); again.Good() {
			granted = again
		}
	}
	if c.conflict {
		c.ask(ctx, c.name, c.other())
	}
	return granted
}

// series sends a request until the answer is final, and records every attempt.
func (c *client) series(ctx context.Context, base check.Call, limit time.Duration, ask func(context.Context, int, *answer)) check.Call {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		at := c.replica()
		a := answer{Call: base}
		a.Tenant = c.tenant.Name
		a.Target, a.Asked = c.o.Replicas[at].Name, time.Now()
		try, cancel := context.WithTimeout(ctx, limit)
		ask(try, at, &a)
		cancel()
		a.Time = time.Now()
		if ctx.Err() != nil && a.Lost != "" {
			a.Lost = "given up"
		}
		c.o.Recorder.Record(a.Call)
		if !a.again() || !faultinject.Pause(ctx, max(wait, min(a.retryAfter, 5*time.Second))) {
			return a.Call
		}
	}
}

// replica returns the next replica, because clients change replicas with each request.
func (c *client) replica() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = (c.turn + 1) % len(c.o.Replicas)
	return c.turn
}

// again reports whether to send the same request again. A request that may have created a job is
// repeated only under a key.
func (a *answer) again() bool {
	safe := a.Key != "" || a.Op == check.OpGet || a.Op == check.OpCancel
	switch {
	case a.Good():
		return false
	case a.Lost != "":
		return a.NotSent || safe
	case a.Code == "acceptance_unknown":
		return safe
	default:
		return a.Passing()
	}
}

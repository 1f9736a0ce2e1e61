// Package hold keeps the messages of accepted jobs while their jobs live. It extends
// them, reads and writes each job's log as its holder, and settles them. It does not
// know what a job does: that is for packages video and chat.
//
// A work item is held, not acknowledged, for as long as its job lives: one ticker extends
// what is held, and a redelivery means that a holder is gone and the job is to be resumed
// from its log.
package hold

import (
	"context"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

// Life is how long a process takes jobs, and works on them.
type Life struct {
	// Fetching ends first: no more messages are taken. Working ends with the grace period.
	Fetching, Working context.Context //nolint:containedctx // two ends of the process's life, which each job needs
	// Jobs counts the goroutines that work on jobs. Nothing is added to it once the last
	// job is settled.
	Jobs sync.WaitGroup
}

// Holder is what all held jobs of a process share.
type Holder struct {
	Options
	*Life

	held *registry
}

// New returns a Holder that holds nothing. The log tells it of its jobs by Notice.
func New(fetching, working context.Context, o Options) *Holder {
	return &Holder{Options: o, Life: &Life{Fetching: fetching, Working: working}, held: newRegistry()}
}

// Add registers a job that was just delivered. It is false where this process holds the
// job already, which is given the delivery: the broker was away longer than AckWait and
// delivers everything to its own holder.
func (h *Holder) Add(j Held) bool {
	held, added := h.held.add(j.Job().Name().ID, j)
	if added {
		j.Job().Message.metrics.AddHeld(1)
		return true
	}
	held.Job().Message.redelivered(j.Job().Message.Delivery())
	held.Confirm()
	return false
}

// Each calls f for every held job.
func (h *Holder) Each(f func(Held)) { h.held.each(f) }

// HeldJob is what a held job says of itself; nil for one that is not held.
func (h *Holder) HeldJob(id string) *genbusv1.HeldJob {
	if j := h.held.get(id); j != nil {
		return j.Tell()
	}
	return nil
}

// Held is how many jobs are held.
func (h *Holder) Held() int { return h.held.size() }

// Notice has a held job read its log: an end, or a write of another replica.
func (h *Holder) Notice(n joblog.Notice) {
	if j := h.held.get(n.Name.ID); j != nil {
		j.Confirm()
	}
}

// KeepExtending extends every held message each period until Working ends.
func (h *Holder) KeepExtending(period time.Duration) { h.held.keepExtending(h.Working, period) }

// HandOver returns every message as soon as no call is in hand.
func (h *Holder) HandOver() { h.held.each(Held.HandOver) }

// Reclaim extends everything that is held, and has those jobs read their logs of which the
// log has more than is known, or nothing: after the broker was away it may have given them
// to others.
func (h *Holder) Reclaim(ctx context.Context) {
	h.held.each(Held.Extend)
	var jobs []Held
	h.held.each(func(j Held) { jobs = append(jobs, j) })
	if h.check(ctx, jobs, true) == nil || ctx.Err() != nil {
		return
	}
	for _, j := range jobs { // each asks for itself, again and again
		j.Confirm()
	}
}

// Discard removes stored bodies that no event names, and none ever will: what a holder
// has stored too late. What cannot be removed stays until the object store's TTL, or
// until the job is erased.
func (h *Holder) Discard(ctx context.Context, refs ...*genbusv1.BlobRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommitTimeout)
	defer cancel()
	for _, ref := range refs {
		if ref == nil {
			continue
		}
		if err := h.Bodies.Delete(ctx, publisher.BodyOf(ref)); err != nil {
			h.Logger.Warn("could not delete unreferenced body, left to expire", "object", ref.GetName(), telemetry.KeyError, err)
		}
	}
}

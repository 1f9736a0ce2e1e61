// Package hold keeps the messages of accepted jobs while the jobs live: it extends and settles
// them, and reads and writes each job's log as its holder. Packages video and chat run the jobs.
//
// A work item is acknowledged only after its job has ended. Until then one ticker extends all held
// messages. A redelivery usually means that the previous holder is gone. The job then resumes from
// its log.
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

// Life bounds a process's work on jobs.
type Life struct {
	// Fetching ends first: no more messages are taken. Working ends with the grace period.
	Fetching, Working context.Context //nolint:containedctx // every job needs both ends of the process's life
	// Jobs counts the goroutines that work on jobs. Nothing is added once the last message is
	// settled.
	Jobs sync.WaitGroup
}

// Holder is the state that all held jobs of a process share.
type Holder struct {
	Options
	*Life

	held *registry
}

// New returns a Holder that holds nothing. Peer notifications from the log must go to
// HandlePeerNotification.
func New(fetching, working context.Context, o Options) *Holder {
	return &Holder{Options: o, Life: &Life{Fetching: fetching, Working: working}, held: newRegistry()}
}

// Add registers a delivered job. If this process already holds the job, Add passes the delivery on
// to the held job and returns false. This happens after an outage longer than AckWait, when the
// broker redelivers everything.
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

// HeldJob returns a held job's details for operators, or nil if the job is not held.
func (h *Holder) HeldJob(id string) *genbusv1.HeldJob {
	if j := h.held.get(id); j != nil {
		return j.Details()
	}
	return nil
}

// Held returns the number of held jobs.
func (h *Holder) Held() int { return h.held.size() }

// HandlePeerNotification handles a peer notification: the job rereads its log.
func (h *Holder) HandlePeerNotification(s joblog.Summary) {
	if j := h.held.get(s.Name.ID); j != nil {
		j.Confirm()
	}
}

// KeepExtending extends every held message once per period until Working ends.
func (h *Holder) KeepExtending(period time.Duration) { h.held.keepExtending(h.Working, period) }

// HandOver returns each message as soon as no call for its job is running.
func (h *Holder) HandOver() { h.held.each(Held.HandOver) }

// Reclaim is called after a reconnect. It extends all held messages, and makes jobs reread their
// logs if those have changed or no longer exist: the broker may have redelivered the messages to
// other replicas.
func (h *Holder) Reclaim(ctx context.Context) {
	h.held.each(Held.Extend)
	var jobs []Held
	h.held.each(func(j Held) { jobs = append(jobs, j) })
	if h.check(ctx, jobs, true) == nil || ctx.Err() != nil {
		return
	}
	for _, j := range jobs { // each retries its own read
		j.Confirm()
	}
}

// Discard removes bodies that were stored too late for any event to name them. What cannot be
// removed stays until it expires from the object store or the job is erased.
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

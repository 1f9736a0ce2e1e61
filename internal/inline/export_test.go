package inline

import (
	"context"
	"time"
)

// CheckedEvery sets the interval of the checks against the log.
func (o Options) CheckedEvery(d time.Duration) Options {
	o.checkEvery = d
	return o
}

// WithBacklog sets the backlog limit and how long chats wait above it.
func (o Options) WithBacklog(chats int, most time.Duration) Options {
	o.maxBacklog, o.capacityWait = chats, most
	return o
}

// StoresFor sets the time limit for storing events.
func (o Options) StoresFor(d time.Duration) Options {
	o.storeTime = d
	return o
}

// LooksAgainAfter sets the delay before a missing chat is read again.
func (o Options) LooksAgainAfter(d time.Duration) Options {
	o.secondLook = d
	return o
}

// FillWrites takes all write permits until release is called.
func (r *Runner) FillWrites(ctx context.Context) (release func()) {
	for range maxWrites {
		r.writes.acquire(ctx, stageFinish)
	}
	return func() {
		for range maxWrites {
			r.writes.release()
		}
	}
}

// Full adds a chat with unstored events to the backlog until release is called.
func (r *Runner) Full() (release func()) {
	r.backlog.add()
	return func() { r.backlog.remove(true) }
}

// Backlog returns the number of ended chats with unstored events, and of chats waiting to begin.
func (r *Runner) Backlog() (ended, waiting int) {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	return r.backlog.ended, len(r.backlog.waiting)
}

func (r *Runner) Check(ctx context.Context) error { return r.check(ctx) }

// Known returns the sequence up to which a running chat's log is known, and whether the log has no
// events of it.
func (r *Runner) Known(id string) (seq uint64, unlogged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.calls[id].rec
	return rec.known.Load(), rec.unlogged.Load()
}

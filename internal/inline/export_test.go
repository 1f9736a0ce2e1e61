package inline

import (
	"context"
	"time"
)

// CheckedEvery has running chats checked with the log that often.
func (o Options) CheckedEvery(d time.Duration) Options {
	o.checkEvery = d
	return o
}

// WithBacklog has chats wait while the events of that many are not stored, for a time.
func (o Options) WithBacklog(chats int, most time.Duration) Options {
	o.maxBacklog, o.capacityWait = chats, most
	return o
}

// StoresFor has what is not stored that long after the end of a chat be given up.
func (o Options) StoresFor(d time.Duration) Options {
	o.storeTime = d
	return o
}

// LooksAgainAfter sets the wait before a running chat is looked for a second time.
func (o Options) LooksAgainAfter(d time.Duration) Options {
	o.secondLook = d
	return o
}

// FillWrites takes all permits to store events, until the function that it returns is called.
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

// Full has chats wait as if one had ended whose events are not stored, until the function
// that it returns is called.
func (r *Runner) Full() (release func()) {
	r.backlog.add()
	return func() { r.backlog.remove(true) }
}

// Backlog is how many chats have ended whose events are not stored, and how many wait to begin.
func (r *Runner) Backlog() (ended, waiting int) {
	r.backlog.mu.Lock()
	defer r.backlog.mu.Unlock()
	return r.backlog.ended, len(r.backlog.waiting)
}

// Check checks the running chats, as is done each 30 s.
func (r *Runner) Check(ctx context.Context) error { return r.check(ctx) }

// Known is the sequence up to which the log of a running chat is known, and whether the log
// has nothing of it.
func (r *Runner) Known(id string) (seq uint64, unlogged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.calls[id].rec
	return rec.known.Load(), rec.unlogged.Load()
}

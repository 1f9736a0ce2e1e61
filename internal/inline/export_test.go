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

package hold

import (
	"context"
	"errors"
)

// Check checks all held jobs, as KeepChecking does.
func (h *Holder) Check(ctx context.Context) (failed error) {
	for i := range h.held.shards {
		failed = errors.Join(failed, h.check(ctx, h.held.shards[i].all(), false))
	}
	return failed
}

// UpTo returns the sequence up to which the job's log is known.
func (r *Record) UpTo() uint64 { return r.upTo.Load() }

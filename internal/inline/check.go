package inline

import (
	"context"
	"errors"
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// checkEvery is the interval between checks of running chats against the log. A check detects a
// cancel whose peer notification was lost (ADR 16). Until then, the upstream keeps
// generating.
const checkEvery = 30 * time.Second

// keepChecking checks the running chats every period and after each reconnect, until ctx ends.
func (r *Runner) keepChecking(ctx context.Context, period time.Duration) {
	defer close(r.checksEnded)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.reconnected:
		}
		if err := r.check(ctx); err != nil && ctx.Err() == nil {
			r.o.Logger.Debug("could not check running inline chats, retrying", telemetry.KeyError, err)
		}
	}
}

// check cancels the running chats that the log shows as cancelled. It also cancels erased ones,
// because only ended jobs can be erased. It sends no request if no running chat has events.
func (r *Runner) check(ctx context.Context) error {
	missing, err := r.readBehind(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	// A leader that has just been replaced may answer one more read.
	if err := broker.Wait(ctx, r.o.secondLook); err != nil {
		return err
	}
	if missing, err = r.read(ctx, missing); err != nil || len(missing) == 0 {
		return err
	}
	for _, c := range missing {
		erased, err := r.o.Log.Erased(ctx, c.rec.known.Load(), c.begin)
		switch {
		case err != nil:
			return err
		case erased:
			r.cancelled(c.name())
		default: // a lost log does not justify ending the call
			c.rec.unlogged.Store(true)
		}
	}
	return nil
}

// readBehind reads the running chats that have new events in the log or are missing from it. It
// returns the missing ones.
func (r *Runner) readBehind(ctx context.Context) (missing []*call, err error) {
	for batch := range slices.Chunk(r.logged(), broker.MaxSubjects) {
		known := make([]joblog.Known, len(batch))
		for i, c := range batch {
			known[i] = joblog.Known{Name: c.name(), Seq: c.rec.known.Load()}
		}
		behind, _, err := r.o.Log.Behind(ctx, known, true)
		if err != nil {
			return nil, err
		}
		changed := make([]*call, len(behind))
		for i, at := range behind {
			changed[i] = batch[at]
		}
		absent, err := r.read(ctx, changed)
		if err != nil {
			return nil, err
		}
		missing = append(missing, absent...)
	}
	return missing, nil
}

// logged returns the running chats that are, or may be, in the log.
func (r *Runner) logged() (out []*call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.rec != nil && !c.rec.unlogged.Load() && c.ctx.Err() == nil {
			out = append(out, c)
		}
	}
	return out
}

// read reads the logs of running chats and ends the cancelled ones. It returns the chats that have
// disappeared from the log. It ignores a missing chat whose first event is unconfirmed, because
// that chat may never have been in the log.
func (r *Runner) read(ctx context.Context, calls []*call) (missing []*call, err error) {
	for _, c := range calls {
		if c.ctx.Err() != nil {
			continue // it has ended since
		}
		known := c.rec.known.Load()
		e, err := r.o.Log.Get(ctx, c.name())
		switch {
		case errors.Is(err, joblog.ErrNotFound):
			if known > 0 {
				missing = append(missing, c)
			}
		case err != nil:
			return nil, err
		case e.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_CANCELLED:
			r.cancelled(c.name())
		default:
			c.rec.known.Store(e.Seq)
		}
	}
	return missing, nil
}

func (c *call) name() subject.JobName {
	return subject.JobName{Kind: subject.Chat, Tenant: c.req.Tenant, ID: c.checked.ID}
}

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

// checkEvery is how often the running chats are checked with the log, many at a time: the
// notice of a cancel can be lost (docs/adr/0016). A cancel that is found late costs what the
// upstream writes until then.
const checkEvery = 30 * time.Second

// keepChecking checks the running chats each period, and at once after a reconnect, until
// ctx ends.
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

// check cancels the running chats whose logs say that they were cancelled, and those whose
// logs were erased: only the log of a job that has ended is erased. It sends nothing where
// no running chat has events.
func (r *Runner) check(ctx context.Context) error {
	missing, err := r.readBehind(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	// They were read from the log's leader, but one that has just lost the lead may answer
	// once more.
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
		default: // the log was lost, which is no reason to cut a caller off
			c.rec.unlogged.Store(true)
		}
	}
	return nil
}

// readBehind reads those running chats of which the log has more than is known, or nothing,
// and returns those that are missing.
func (r *Runner) readBehind(ctx context.Context) (missing []*call, err error) {
	for batch := range slices.Chunk(r.logged(), broker.MostSubjects) {
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
		gone, err := r.read(ctx, changed)
		if err != nil {
			return nil, err
		}
		missing = append(missing, gone...)
	}
	return missing, nil
}

// logged lists the running chats that the log has, or may have.
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

// read reads the logs of running chats one after the other, and ends those that were
// cancelled. It returns those that the log had and does not have now. Of one whose first
// event was not confirmed yet, the log may never have had anything.
func (r *Runner) read(ctx context.Context, calls []*call) (missing []*call, err error) {
	for _, c := range calls {
		if c.ctx.Err() != nil {
			continue // it has ended meanwhile
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

// name is the chat's name in the log.
func (c *call) name() subject.JobName {
	return subject.JobName{Kind: subject.Chat, Tenant: c.req.Tenant, ID: c.checked.ID}
}

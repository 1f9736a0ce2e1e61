package hold

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/telemetry"
)

// checkEvery is the interval at which the log of each held job is checked, in batches. The peer
// notification of a cancel or takeover can be lost. Noticing the change late costs only a few
// useless polls, because every write is a compare-and-set (ADR 16).
const checkEvery = 30 * time.Second

// missingEvery makes every 20th check also ask whether the logs still exist, which reads all their
// last events.
const missingEvery = 20

// KeepChecking checks the logs of all held jobs, one shard at a time, until Fetching ends.
func (h *Holder) KeepChecking() {
	ticker := time.NewTicker(checkEvery / shards)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-h.Fetching.Done():
			return
		case <-ticker.C:
			missing := i/shards%missingEvery == missingEvery-1
			_ = h.check(h.Fetching, h.held.shards[i%shards].all(), missing) // the next check retries
		}
	}
}

// check makes jobs reread their logs if there may be events that they do not know. With missing, it
// also includes jobs whose logs no longer exist.
func (h *Holder) check(ctx context.Context, jobs []Held, missing bool) error {
	known := make([]joblog.Known, 0, len(jobs))
	of := make(map[string]Held, len(jobs))
	for _, j := range jobs {
		if upTo := j.Job().Record.upTo.Load(); upTo > 0 {
			known = append(known, joblog.Known{Name: j.Job().Name(), Seq: upTo})
			of[j.Job().Name().ID] = j
		}
	}
	// Sort, so that jobs with similar sequences share a batch: a check reads everything above the
	// lowest sequence of its batch.
	slices.SortFunc(known, func(a, b joblog.Known) int { return cmp.Compare(a.Seq, b.Seq) })
	for batch := range slices.Chunk(known, broker.MaxSubjects) {
		behind, upTo, err := h.Log.Behind(ctx, batch, missing)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			h.Logger.Debug("could not check logs of held jobs", "jobs", len(of), telemetry.KeyError, err)
			return err
		}
		for _, i := range behind {
			of[batch[i].Name.ID].Confirm()
			delete(of, batch[i].Name.ID)
		}
		for _, k := range batch {
			if j := of[k.Name.ID]; j != nil && upTo > k.Seq {
				j.Job().Record.upTo.CompareAndSwap(k.Seq, upTo) // unless it was read or written since
			}
		}
	}
	return nil
}

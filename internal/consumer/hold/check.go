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

// checkEvery is how often the logs of held jobs are checked, many at a time: the notice of a
// cancel, or of a replica that has taken a job over, can be lost. What a check finds late
// costs a few polls for nothing; every write is a compare-and-set (docs/adr/0016).
const checkEvery = 30 * time.Second

// missingEvery is how many checks pass until one also asks whether the logs are still there,
// which is read with all their last events.
const missingEvery = 20

// KeepChecking checks the logs of all held jobs, a shard at a time, until no more messages
// are taken.
func (h *Holder) KeepChecking() {
	ticker := time.NewTicker(checkEvery / shards)
	defer ticker.Stop()
	for i := 1; ; i++ {
		select {
		case <-h.Fetching.Done():
			return
		case <-ticker.C:
			missing := i/shards%missingEvery == missingEvery-1
			_ = h.check(h.Fetching, h.held.shards[i%shards].all(), missing) // what fails is checked the next time
		}
	}
}

// check has those jobs read their logs of which the log has more than is known; with
// missing, also those that it does not have.
func (h *Holder) check(ctx context.Context, jobs []Held, missing bool) error {
	known := make([]joblog.Known, 0, len(jobs))
	of := make(map[string]Held, len(jobs))
	for _, j := range jobs {
		if upTo := j.Job().Record.upTo.Load(); upTo > 0 {
			known = append(known, joblog.Known{Name: j.Job().Name(), Seq: upTo})
			of[j.Job().Name().ID] = j
		}
	}
	// Those of which as much is known are asked for together: a check asks for all that is
	// above the least.
	slices.SortFunc(known, func(a, b joblog.Known) int { return cmp.Compare(a.Seq, b.Seq) })
	for batch := range slices.Chunk(known, broker.MostSubjects) {
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
				j.Job().Record.upTo.CompareAndSwap(k.Seq, upTo) // unless the job was read or written meanwhile
			}
		}
	}
	return nil
}

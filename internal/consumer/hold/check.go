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

// KeepChecking checks the logs of all held jobs, a shard at a time, until no more messages
// are taken.
func (h *Holder) KeepChecking() {
	ticker := time.NewTicker(checkEvery / shards)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % shards {
		select {
		case <-h.Fetching.Done():
			return
		case <-ticker.C:
			h.check(h.Fetching, h.held.shards[i].all(), false)
		}
	}
}

// check has those jobs read their logs of which the log has more than is known; with
// missing, also those that it does not have.
func (h *Holder) check(ctx context.Context, jobs []Held, missing bool) {
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
			return
		}
		if err != nil {
			h.Logger.Debug("the logs of held jobs could not be checked", "jobs", len(batch), telemetry.KeyError, err)
			if !missing {
				continue // until the next time
			}
			for i := range batch { // each job asks for itself, again and again
				behind = append(behind, i)
			}
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
}

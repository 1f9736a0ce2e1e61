package jobindex

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// readAgain is the delay before reading the log again after a failure.
	readAgain = 5 * time.Second
	// searches bounds the concurrent searches on one replica. turnPatience bounds a search's wait
	// for its turn, and searchPatience the whole search.
	searches       = 2
	turnPatience   = time.Second
	searchPatience = 5 * time.Second
)

// keeper reads the log into an index on this replica while run is active.
type keeper struct {
	log       *joblog.Log
	metrics   *telemetry.Metrics
	logger    *slog.Logger
	size      int
	observers []Observer
	// current is the latest reading, or nil while run is not active.
	current atomic.Pointer[reading]
	turns   chan struct{} // holds a token for each running search
}

func newKeeper(o Options) *keeper {
	return &keeper{log: o.Log, metrics: o.Metrics, logger: o.Logger, size: o.Size, turns: make(chan struct{}, searches)}
}

func (k *keeper) run(ctx context.Context) {
	defer func() {
		k.current.Store(nil)
		for _, o := range k.observers {
			o.Reset()
		}
	}()
	for ctx.Err() == nil {
		if err := k.read(ctx); err != nil && ctx.Err() == nil {
			k.logger.Warn("could not read job index from log, retrying", telemetry.KeyError, err)
			_ = broker.Wait(ctx, readAgain) // the loop checks ctx
		}
	}
}

// read reads the log and follows it. It returns when ctx ends or the log must be read from its
// beginning again.
func (k *keeper) read(ctx context.Context) error {
	h, err := k.log.Headers(ctx)
	if err != nil {
		return err
	}
	r := newReading(k.log, h.LogCreated, k.size, k.observers)
	k.current.Store(r)
	stop, err := h.Each(r.apply, r.catchUp, func(err error) {
		k.logger.Debug("rereading part of the log for the job index", telemetry.KeyError, err)
	})
	if err != nil {
		return err
	}
	defer r.end()
	defer stop()
	timer := time.NewTimer(probeEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.caught:
		case <-timer.C:
		}
		next, reason := r.probe(ctx)
		k.report()
		if reason != "" {
			k.logger.Warn("rebuilding job index from start of log", "reason", reason)
			return nil
		}
		timer.Reset(next)
	}
}

// ready returns the current reading if it has caught up with the log, or nil.
func (k *keeper) ready() *reading {
	if r := k.current.Load(); r != nil && r.isReady(time.Now()) {
		return r
	}
	return nil
}

func (k *keeper) report() { k.metrics.IndexReady(k.ready() != nil) }

// search searches the table of a reading. It returns ErrBusy if it does not get its turn within
// turnPatience.
func (k *keeper) search(ctx context.Context, r *reading, s jobtable.Search) (jobtable.Found, error) {
	turn := time.NewTimer(turnPatience)
	defer turn.Stop()
	select {
	case k.turns <- struct{}{}:
		defer func() { <-k.turns }()
	case <-turn.C:
		return jobtable.Found{}, ErrBusy
	case <-ctx.Done():
		return jobtable.Found{}, context.Cause(ctx)
	}
	asOf := r.asOfTime()
	found, err := r.table.Search(ctx, s)
	found.AsOf = asOf.UnixNano()
	return found, err
}

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxPending limits how many jobs are remembered. Other jobs are logged when a caller asks for
	// them or when it is their turn.
	maxPending = 100_000
	// retryPending is the retry interval while the log does not answer.
	retryPending = 2 * time.Second
	// maxReported limits how many jobs' errors are logged.
	maxReported = 5
)

// pendingFirstEvents tracks the jobs that this process accepted but whose first event it could not
// log. Until the event is written, the job is not in any list, and its start deadline does not end
// it. If the job is ready, it counts as lost after joblog.LostAfter.
type pendingFirstEvents struct {
	items Items
	mu    sync.Mutex
	names map[subject.JobName]struct{}
	wake  chan struct{}
}

func newPendingFirstEvents(items Items) *pendingFirstEvents {
	return &pendingFirstEvents{items: items, names: map[subject.JobName]struct{}{}, wake: make(chan struct{}, 1)}
}

func (p *pendingFirstEvents) add(names ...subject.JobName) {
	p.mu.Lock()
	for _, n := range names {
		if len(p.names) < maxPending {
			p.names[n] = struct{}{}
		}
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pendingFirstEvents) take() []subject.JobName {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Keys(p.names))
	clear(p.names)
	return out
}

// run writes the missing first events until ctx ends.
func (p *pendingFirstEvents) run(ctx context.Context, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		names := p.take()
		left, err := p.logEach(ctx, names)
		if len(names) > len(left) {
			logger.Info("recorded jobs accepted during a log outage", "jobs", len(names)-len(left), "left", len(left))
		}
		if len(left) == 0 {
			continue
		}
		logger.Warn("could not record accepted jobs, retrying", "jobs", len(left), telemetry.KeyError, err)
		if broker.Wait(ctx, retryPending) != nil {
			return
		}
		p.add(left...)
	}
}

// logEach logs the jobs. It returns those that could not be logged, and the errors of the first
// few. It stops early only if the broker is unavailable or ctx ends, so that one job does not hold
// up the others.
func (p *pendingFirstEvents) logEach(ctx context.Context, names []subject.JobName) (left []subject.JobName, why error) {
	for i, n := range names {
		if err := cmp.Or(p.items.b.Trouble(), ctx.Err()); err != nil {
			return append(left, names[i:]...), errors.Join(why, err)
		}
		if err := p.logOne(ctx, n); err != nil {
			if left = append(left, n); len(left) <= maxReported {
				why = errors.Join(why, fmt.Errorf("%s: %w", n.ID, err))
			}
		}
	}
	return left, why
}

// logOne logs one job. It skips an erased job, and a job older than joblog.LostAfter, which is left
// to the consumer or the dispatcher.
func (p *pendingFirstEvents) logOne(ctx context.Context, n subject.JobName) error {
	entry, err := p.items.Accepted(ctx, n)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		return nil
	case err != nil || entry.Seq > 0:
		return err
	}
	if now, err := p.items.b.Clock().Now(); err == nil && now.Sub(entry.Job.GetCreatedAt().AsTime()) > joblog.LostAfter {
		return nil
	}
	return joblog.ErrUncertain
}

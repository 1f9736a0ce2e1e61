package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxUnrecorded bounds how many jobs are remembered. The others are recorded when
	// somebody asks for them, or when their turn comes.
	maxUnrecorded = 100_000
	// recordAgain is the wait after the log did not answer.
	recordAgain = 2 * time.Second
	// maxReported bounds the jobs of which the service's log says why.
	maxReported = 5
)

// unrecorded are the jobs that this process has accepted while the log did not take
// their first event. They are recorded as soon as it answers: until then no list
// has them, nobody ends them at their start deadline, and what stands in line is
// given up after tasklog.LostAfter.
type unrecorded struct {
	mu    sync.Mutex
	names []subject.TaskName
	wake  chan struct{}
}

func newUnrecorded() *unrecorded { return &unrecorded{wake: make(chan struct{}, 1)} }

func (u *unrecorded) add(names ...subject.TaskName) {
	u.mu.Lock()
	room := max(maxUnrecorded-len(u.names), 0)
	u.names = append(u.names, names[:min(len(names), room)]...)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *unrecorded) take() []subject.TaskName {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.names
	u.names = nil
	return out
}

// recordAccepted records what was accepted without a record, until ctx ends.
func (a *Admission) recordAccepted(ctx context.Context, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.unrecorded.wake:
		}
		names := a.unrecorded.take()
		left, err := a.recordEach(ctx, names)
		if len(names) > len(left) {
			logger.Info("jobs that were accepted while the log did not answer are recorded", "jobs", len(names)-len(left), "left", len(left))
		}
		if len(left) == 0 {
			continue
		}
		logger.Warn("accepted jobs are not recorded yet", "jobs", len(left), telemetry.KeyError, err)
		if broker.Wait(ctx, recordAgain) != nil {
			return
		}
		a.unrecorded.add(left...)
	}
}

// recordEach gives those that could not be recorded, and why, of the first of them. It stops
// only where the broker is known to be away: one job must not hold up the others.
func (a *Admission) recordEach(ctx context.Context, names []subject.TaskName) (left []subject.TaskName, why error) {
	for i, n := range names {
		if err := cmp.Or(a.b.Trouble(), ctx.Err()); err != nil {
			return append(left, names[i:]...), errors.Join(why, err)
		}
		if err := a.recordOne(ctx, n); err != nil {
			if left = append(left, n); len(left) <= maxReported {
				why = errors.Join(why, fmt.Errorf("%s: %w", n.ID, err))
			}
		}
	}
	return left, why
}

// recordOne is done with a job that is erased. One that is older than tasklog.LostAfter is left to
// its consumer where it stands in line, and to its turn.
func (a *Admission) recordOne(ctx context.Context, n subject.TaskName) error {
	entry, err := a.Accepted(ctx, n)
	switch {
	case errors.Is(err, tasklog.ErrNotFound):
		return nil
	case err != nil || entry.Seq > 0:
		return err
	}
	if now, err := a.b.Clock().Now(); err == nil && now.Sub(entry.Job.GetCreatedAt().AsTime()) > tasklog.LostAfter {
		return nil
	}
	return tasklog.ErrUncertain
}

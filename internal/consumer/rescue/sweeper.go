// Package rescue ends jobs that no replica would end otherwise: jobs not started by their deadline,
// and started jobs that have lost their work item.
package rescue

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxDeadlines bounds the start deadlines that one process knows, and separately the deadlines
	// of started jobs, at some 150 bytes each.
	maxDeadlines = 200_000
	// recallAgain is the delay before a failed read of the log for dropped deadlines is retried.
	recallAgain = time.Minute
	// sweepSpread is how long after its deadline a job is ended at the latest, if the broker
	// answers. Every replica picks a random moment, so that usually one has ended the job before
	// the others try.
	sweepSpread = 500 * time.Millisecond
	// sweeps bounds the jobs that one process ends at a time. In a fleet, usually two processes do
	// this.
	sweeps = 32
)

// Options are the dependencies of a Sweeper. All are required.
type Options struct {
	Life        *hold.Life
	Clock       *clock.Clock
	Log         *joblog.Log
	Queue       *queue.Queue
	DeadLetters deadletter.Store
	Logger      *slog.Logger
}

// Sweeper ends jobs that were not started by their deadline, wherever their items are, and started
// jobs that are stuck. The log decides between it and a holder: one of the two loses its
// compare-and-set, and stops.
type Sweeper struct {
	parts Options

	mu sync.Mutex
	// starts has the times by which jobs must be started, and ends the times at which started jobs
	// are checked. Each has its own limit, so that neither displaces the other.
	starts, ends *deadlines
	recalling    bool          // the log is being read for dropped deadlines
	stopRecall   func()        // ends that read; nil before the first
	earlier      chan struct{} // has a token if there may be something to do earlier
}

// New returns a Sweeper. It must observe the index of jobs.
func New(o Options) *Sweeper {
	return &Sweeper{parts: o, starts: newDeadlines(maxDeadlines), ends: newDeadlines(maxDeadlines), earlier: make(chan struct{}, 1)}
}

// Observe records the deadline that an event names, or drops the job's deadline if the job has
// ended.
func (s *Sweeper) Observe(event joblog.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe(event)
}

// Reset drops all deadlines, because other replicas keep them.
func (s *Sweeper) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts, s.ends = newDeadlines(s.starts.limit), newDeadlines(s.ends.limit)
	if s.stopRecall != nil {
		s.stopRecall()
	}
}

// observe is Observe for callers that hold mu.
func (s *Sweeper) observe(event joblog.Summary) {
	to, at := s.deadlineOf(event)
	if to == nil {
		s.starts.drop(event.Name.ID)
		s.ends.drop(event.Name.ID)
		s.ringForCapacity()
		return
	}
	// Clone the names, which would otherwise keep a whole message in memory.
	s.put(to, deadline{at: at, tenant: unique.Make(strings.Clone(event.Name.Tenant)).Value(), id: strings.Clone(event.Name.ID)})
}

// deadlineOf returns when to check a job, and where that is recorded: nil for a job that has ended.
func (s *Sweeper) deadlineOf(event joblog.Summary) (among *deadlines, at time.Time) {
	switch {
	case !event.StartBy.IsZero():
		return s.starts, event.StartBy
	case !event.EndBy.IsZero():
		return s.ends, event.EndBy.Add(stuckAfter)
	case task.TerminalWord(event.Status):
		return nil, time.Time{}
	default: // the event has no deadline: ask the log
		return s.ends, time.Now().Add(stuckAfter)
	}
}

// put records a job's deadline, slightly delayed, in place of any earlier one. It does nothing if
// Reset has replaced to. Callers hold mu.
func (s *Sweeper) put(to *deadlines, d deadline) {
	if to != s.starts && to != s.ends {
		return
	}
	d.at = d.at.Add(rand.N(sweepSpread))
	for _, other := range []*deadlines{s.starts, s.ends} {
		if other != to {
			other.drop(d.id)
		}
	}
	to.set(d)
	if at, some := to.next(); some && !d.at.After(at) {
		s.ring()
	}
	s.ringForCapacity()
}

// ringForCapacity rings if there is capacity for dropped deadlines. Callers hold mu.
func (s *Sweeper) ringForCapacity() {
	if !s.recalling && (s.starts.hasCapacity() || s.ends.hasCapacity()) {
		s.ring()
	}
}

func (s *Sweeper) ring() {
	select {
	case s.earlier <- struct{}{}:
	default:
	}
}

// Run sweeps until Fetching ends.
func (s *Sweeper) Run() {
	places := make(chan struct{}, sweeps)
	for s.await() {
		s.recall()
		for {
			d, of, now := s.due()
			if of == nil || s.parts.Life.Fetching.Err() != nil {
				break
			}
			places <- struct{}{}
			s.parts.Life.Jobs.Go(func() {
				defer func() { <-places }()
				s.sweep(d, of, now)
			})
		}
	}
}

// recall reads the log for dropped deadlines once half of the limit is free. Without it, a job
// whose deadline was dropped would stay stuck until some replica restarts.
func (s *Sweeper) recall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recalling || !s.starts.hasCapacity() && !s.ends.hasCapacity() {
		return
	}
	s.recalling, s.starts.dropped, s.ends.dropped = true, false, false
	ctx, stop := context.WithCancel(s.parts.Life.Fetching)
	s.stopRecall = stop
	starts := s.starts
	s.parts.Life.Jobs.Go(func() {
		defer stop()
		for {
			err := s.parts.Log.EachLastEvent(ctx, func(event joblog.Summary) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if starts == s.starts { // otherwise all were dropped
					s.observe(event)
				}
			})
			if err == nil || broker.Wait(ctx, recallAgain) != nil {
				break
			}
			s.parts.Logger.Warn("could not read deadlines from log, retrying", telemetry.KeyError, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.recalling = false
		s.ringForCapacity()
	})
}

// await waits until the earliest deadline has passed or there may be something to do earlier, and
// until this replica's clock is right. It returns false if the process is stopping.
func (s *Sweeper) await() bool {
	if s.parts.Clock.Await(s.parts.Life.Fetching) != nil {
		return false
	}
	timer := time.NewTimer(time.Until(s.Next()))
	defer timer.Stop()
	select {
	case <-s.parts.Life.Fetching.Done():
		return false
	case <-s.earlier:
	case <-timer.C:
	}
	return s.parts.Life.Fetching.Err() == nil
}

// Next returns the earliest deadline, at most an hour from now.
func (s *Sweeper) Next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := time.Now().Add(time.Hour)
	for _, d := range []*deadlines{s.starts, s.ends} {
		if at, some := d.next(); some && at.Before(first) {
			first = at
		}
	}
	return first
}

// due removes and returns a deadline that has passed, and the current time. of is nil if there is
// none, or if this replica's clock is wrong.
func (s *Sweeper) due() (d deadline, of *deadlines, now time.Time) {
	now, err := s.parts.Clock.Now()
	if err != nil {
		return deadline{}, nil, now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range []*deadlines{s.starts, s.ends} {
		if d, ok := all.due(now); ok {
			s.ringForCapacity()
			return d, all, now
		}
	}
	return deadline{}, nil, now
}

// sweep ends a job whose deadline has passed at now, or schedules another check.
func (s *Sweeper) sweep(d deadline, of *deadlines, now time.Time) {
	kind, ok := subject.KindOf(d.id)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeoutCause(s.parts.Life.Working, hold.CommitTimeout, errors.New("the sweep timed out"))
	defer cancel()
	again, err := s.Check(ctx, subject.JobName{Kind: kind, Tenant: d.tenant, ID: d.id}, now)
	if err != nil {
		s.parts.Logger.Warn("could not end job at its deadline, retrying", telemetry.KeyJobID, d.id, telemetry.KeyTenant, d.tenant, telemetry.KeyError, err)
		again = time.Now().Add(hold.Retry)
	}
	if again.IsZero() {
		return
	}
	d.at = again
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(of, d)
}

// Check ends a job that missed its start deadline or is stuck. Otherwise it returns when to check
// the job again, or zero for never.
func (s *Sweeper) Check(ctx context.Context, n subject.JobName, now time.Time) (again time.Time, err error) {
	e, err := s.parts.Log.Get(ctx, n)
	if errors.Is(err, joblog.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	if e.Terminal() {
		// It has ended since it was chosen, perhaps by an earlier Check that could not finish it.
		// If the job has no item, no holder will finish it.
		return time.Time{}, s.afterEnd(ctx, e)
	}
	f := hold.NotStarted(e.Job, now)
	if f == nil {
		if by, waits := task.StartBy(e.Job); waits {
			return by, nil
		}
		if f, again, err = stuck(ctx, s.parts, e, now); f == nil || err != nil {
			return again, err
		}
	}
	next, err := task.Failed(e.Job, now, f.TaskError())
	if err != nil {
		return time.Time{}, err
	}
	ended, err := s.parts.Log.Commit(ctx, next, e.Seq)
	var lost *joblog.LostError
	if errors.As(err, &lost) {
		return time.Time{}, nil // its holder continued it, or another replica ended it
	}
	if err != nil {
		return time.Time{}, err
	}
	s.parts.Logger.Log(ctx, ended.EndLevel(f.Code == errcode.SubmissionUnknown), "ended job at its deadline", ended.EndAttrs()...)
	return time.Time{}, s.afterEnd(ctx, ended)
}

// afterEnd stores the feed copy and removes the job from the queue. It may be repeated. If the
// process dies before that, the holder that receives the item does it. Without an item, the end is
// in the log but missing from the feed.
func (s *Sweeper) afterEnd(ctx context.Context, ended joblog.Entry) error {
	if err := s.parts.Log.Finish(ctx, ended); err != nil {
		return err
	}
	return s.parts.Queue.RemoveEnded(ctx, ended)
}

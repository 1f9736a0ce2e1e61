package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxDeadlines bounds the start deadlines that one process knows, at some 150
	// bytes each.
	maxDeadlines = 200_000
	// sweepSpread is how long after its deadline a job is ended at the latest, where
	// the broker answers. Every replica picks its moment at random: mostly one of
	// them has ended the job when the others come to it.
	sweepSpread = 500 * time.Millisecond
	// sweeps is how many jobs one process ends at a time.
	sweeps = 8
)

// sweeper ends the jobs that were not started by their deadline, whoever has their
// items: nobody, mostly, because they still wait; and those that were started and are
// stranded. The log decides between it and a holder: one of the two loses its
// compare-and-set, and stops.
type sweeper struct {
	*Consumer

	mu        sync.Mutex
	deadlines *deadlines
	earlier   chan struct{} // has a token when the earliest deadline may have changed
}

func newSweeper(c *Consumer) *sweeper {
	return &sweeper{Consumer: c, deadlines: newDeadlines(maxDeadlines), earlier: make(chan struct{}, 1)}
}

// notice is the observer of the log.
func (s *sweeper) notice(n tasklog.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := n.StartBy
	if by.IsZero() && !n.EndBy.IsZero() {
		by = n.EndBy.Add(strandedAfter)
	}
	if by.IsZero() {
		s.deadlines.drop(n.Name.ID)
		return
	}
	// Clones: the name is a part of a message's memory.
	s.put(deadline{
		at: by.Add(rand.N(sweepSpread)), tenant: unique.Make(strings.Clone(n.Name.Tenant)).Value(), id: strings.Clone(n.Name.ID),
	})
}

// put needs the lock.
func (s *sweeper) put(d deadline) {
	s.deadlines.set(d)
	if at, some := s.deadlines.next(); some && !d.at.After(at) {
		select {
		case s.earlier <- struct{}{}:
		default:
		}
	}
}

// run sweeps until no more work is taken.
func (s *sweeper) run() {
	places := make(chan struct{}, sweeps)
	for s.await() {
		for {
			d, ok := s.due()
			if !ok || s.fetching.Err() != nil {
				break
			}
			places <- struct{}{}
			s.jobs.Go(func() {
				defer func() { <-places }()
				s.sweep(d)
			})
		}
	}
}

// await waits until the earliest deadline has passed or may be another one. It is
// false when the process stops.
func (s *sweeper) await() bool {
	s.mu.Lock()
	at, some := s.deadlines.next()
	s.mu.Unlock()
	if !some {
		at = time.Now().Add(time.Hour)
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-s.fetching.Done():
		return false
	case <-s.earlier:
	case <-timer.C:
	}
	return s.fetching.Err() == nil
}

func (s *sweeper) due() (deadline, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadlines.due(time.Now())
}

// sweep ends a job whose time is over, or comes back to it.
func (s *sweeper) sweep(d deadline) {
	kind, ok := subject.KindOf(d.id)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeoutCause(s.working, commitTimeout, errors.New("the sweep timed out"))
	defer cancel()
	again, err := s.end(ctx, subject.TaskName{Kind: kind, Tenant: d.tenant, ID: d.id}, time.Now())
	if err != nil {
		s.Logger.Warn("a job could not be ended at its deadline", telemetry.KeyJobID, d.id, telemetry.KeyTenant, d.tenant, telemetry.KeyError, err)
		again = time.Now().Add(retryLog)
	}
	if again.IsZero() {
		return
	}
	d.at = again.Add(rand.N(sweepSpread))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(d)
}

// end ends a job that waits although its start deadline has passed, or that is
// stranded. Where it is to be looked at again it returns when.
func (s *sweeper) end(ctx context.Context, n subject.TaskName, now time.Time) (again time.Time, err error) {
	e, err := s.Log.Get(ctx, n)
	if errors.Is(err, tasklog.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	f := notStarted(e.Job, now)
	if f == nil {
		if by, waits := task.StartBy(e.Job); waits {
			return by, nil
		}
		if f, again, err = s.stranded(ctx, e, now); f == nil || err != nil {
			return again, err
		}
	}
	next, err := task.Failed(e.Job, now, f.TaskError())
	if err != nil {
		return time.Time{}, err
	}
	ended, err := s.Log.Commit(ctx, next, e.Seq)
	var lost *tasklog.LostError
	if errors.As(err, &lost) {
		return time.Time{}, nil // its holder went on, or another replica ended it
	}
	if err != nil {
		return time.Time{}, err
	}
	s.Logger.Log(ctx, endLevel(f.Code == fault.SubmissionUnknown || unfound(ended.Job)), "job ended at its deadline", endAttrs(ended)...)
	return time.Time{}, s.afterEnd(ctx, ended)
}

// afterEnd writes the end into the feed, and takes the job out of those that wait
// for their turn. An item in line is acknowledged by the consumer that gets it, and
// what fails here is done by whoever comes to the item.
func (s *sweeper) afterEnd(ctx context.Context, ended tasklog.Entry) error {
	if err := s.Log.Finish(ctx, ended); err != nil {
		return err
	}
	return s.Admission.Leave(ctx, ended)
}

// notStarted says which start deadline a job has missed; nil for a job that was
// started, and for one that has time.
func notStarted(job task.Job, now time.Time) *fault.Error {
	if by, waits := task.StartBy(job); !waits || now.Before(by) {
		return nil
	}
	if at := job.GetExpiresAt(); at != nil && !now.Before(at.AsTime()) {
		return fault.New(fault.Expired, "job %s was not started before its expires_at", job.GetId())
	}
	return fault.New(fault.QueueTimeout, "job %s waited longer than the queue timeout of route %s", job.GetId(), job.GetExecution().GetRoute())
}

package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxDeadlines bounds the start deadlines that one process knows, and those of
	// started jobs beside them, at some 150 bytes each.
	maxDeadlines = 200_000
	// recallAgain is the wait after the log could not be read for those that were
	// forgotten.
	recallAgain = time.Minute
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

	mu sync.Mutex
	// starts are the times by which jobs are to be started, and ends those at which
	// started ones are looked for. Neither pushes the other out.
	starts, ends *deadlines
	recalling    bool          // the log is being read for those that were forgotten
	earlier      chan struct{} // has a token when there may be something to do earlier
}

func newSweeper(c *Consumer) *sweeper {
	return &sweeper{Consumer: c, starts: newDeadlines(maxDeadlines), ends: newDeadlines(maxDeadlines), earlier: make(chan struct{}, 1)}
}

// notice is the observer of the log.
func (s *sweeper) notice(n tasklog.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, at := s.look(n)
	if to == nil {
		s.starts.drop(n.Name.ID)
		s.ends.drop(n.Name.ID)
		s.ringForRoom()
		return
	}
	// Clones: the name is a part of a message's memory.
	s.put(to, deadline{at: at, tenant: unique.Make(strings.Clone(n.Name.Tenant)).Value(), id: strings.Clone(n.Name.ID)})
}

// look says when a job is to be looked at, and among which; nil for one that has ended.
func (s *sweeper) look(n tasklog.Notice) (among *deadlines, at time.Time) {
	switch {
	case !n.StartBy.IsZero():
		return s.starts, n.StartBy
	case !n.EndBy.IsZero():
		return s.ends, n.EndBy.Add(strandedAfter)
	case task.TerminalWord(n.Status):
		return nil, time.Time{}
	default: // the event is of an older version, which does not say; the log does
		return s.ends, time.Now().Add(strandedAfter)
	}
}

// put has a job looked at at a time, or soon after, and at no other. It needs the lock.
func (s *sweeper) put(to *deadlines, d deadline) {
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
	s.ringForRoom()
}

// ringForRoom rings where there is room for what was forgotten. It needs the lock.
func (s *sweeper) ringForRoom() {
	if !s.recalling && (s.starts.hasRoom() || s.ends.hasRoom()) {
		s.ring()
	}
}

func (s *sweeper) ring() {
	select {
	case s.earlier <- struct{}{}:
	default:
	}
}

// run sweeps until no more work is taken.
func (s *sweeper) run() {
	places := make(chan struct{}, sweeps)
	for s.await() {
		s.recall()
		for {
			d, of, now := s.due()
			if of == nil || s.fetching.Err() != nil {
				break
			}
			places <- struct{}{}
			s.jobs.Go(func() {
				defer func() { <-places }()
				s.sweep(d, of, now)
			})
		}
	}
}

// recall reads the log for the deadlines that were forgotten, once there is room for
// half as many as are known at most: without that, a started job that is stranded would
// stay as it is until a replica starts.
func (s *sweeper) recall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recalling || !s.starts.hasRoom() && !s.ends.hasRoom() {
		return
	}
	s.recalling, s.starts.forgot, s.ends.forgot = true, false, false
	s.jobs.Go(func() {
		for {
			err := s.Log.TellAll(s.fetching, s.notice)
			if err == nil || broker.Wait(s.fetching, recallAgain) != nil {
				break
			}
			s.Logger.Warn("the log could not be read for deadlines that were forgotten; this is repeated", telemetry.KeyError, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.recalling = false
		s.ringForRoom()
	})
}

// await waits until the earliest deadline has passed, or there may be something to do
// earlier, and as long as this replica's clock is wrong. It is false when the process
// stops.
func (s *sweeper) await() bool {
	if s.Broker.Clock().Await(s.fetching) != nil {
		return false
	}
	timer := time.NewTimer(time.Until(s.next()))
	defer timer.Stop()
	select {
	case <-s.fetching.Done():
		return false
	case <-s.earlier:
	case <-timer.C:
	}
	return s.fetching.Err() == nil
}

// next is the earliest deadline, or in an hour where there is none before.
func (s *sweeper) next() time.Time {
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

// due takes out a deadline that has passed, at now; of is nil when there is none, and when
// this replica's clock cannot say.
func (s *sweeper) due() (d deadline, of *deadlines, now time.Time) {
	now, err := s.Broker.Clock().Now()
	if err != nil {
		return deadline{}, nil, now
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range []*deadlines{s.starts, s.ends} {
		if d, ok := all.due(now); ok {
			s.ringForRoom()
			return d, all, now
		}
	}
	return deadline{}, nil, now
}

// sweep ends a job whose time was over at now, or comes back to it.
func (s *sweeper) sweep(d deadline, of *deadlines, now time.Time) {
	kind, ok := subject.KindOf(d.id)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeoutCause(s.working, commitTimeout, errors.New("the sweep timed out"))
	defer cancel()
	again, err := s.end(ctx, subject.TaskName{Kind: kind, Tenant: d.tenant, ID: d.id}, now)
	if err != nil {
		s.Logger.Warn("a job could not be ended at its deadline", telemetry.KeyJobID, d.id, telemetry.KeyTenant, d.tenant, telemetry.KeyError, err)
		again = time.Now().Add(retryLog)
	}
	if again.IsZero() {
		return
	}
	d.at = again
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(of, d)
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

// afterEnd writes the end into the feed, and has the job leave the queue. What fails
// here is done by the consumer that is given the item.
func (s *sweeper) afterEnd(ctx context.Context, ended tasklog.Entry) error {
	if err := s.Log.Finish(ctx, ended); err != nil {
		return err
	}
	return s.Queue.Leave(ctx, ended)
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

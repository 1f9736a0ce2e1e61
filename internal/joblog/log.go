// Package joblog owns the log of record. It commits transitions by compare-and-set, reads jobs and
// follows them live. In the service, no other package reads or writes GENBUS_TASKS. The client
// package and the commands read it as subscribers. Package task decides the transitions.
package joblog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Log commits and reads job events. After Start, it also follows jobs and notifies other replicas.
type Log struct {
	*followers
	*notifier
	b       *broker.Broker
	enc     publisher.Encoder
	metrics *telemetry.Metrics
	writer  string
	// Capacity grants space in the log.
	Capacity *Capacity
}

// Writer returns the opaque ID of this replica, which changes at each start.
func (l *Log) Writer() string { return l.writer }

// Trouble returns, without blocking, why the log is unusable, or nil if no problem is known.
func (l *Log) Trouble() error { return l.b.Trouble() }

// Get reads a job's current state from the leader. It returns ErrNotFound if the log does not have
// the job.
func (l *Log) Get(ctx context.Context, n subject.JobName) (Entry, error) {
	e, _, err := l.get(ctx, n, l.b.Last)
	return e, err
}

// Probe is like Get but for a job that the log usually does not have.
func (l *Log) Probe(ctx context.Context, n subject.JobName) (Entry, error) {
	e, _, err := l.get(ctx, n, l.b.Probe)
	return e, err
}

// Some reads up to broker.MaxSubjects jobs with one request. It omits jobs that are not in the
// answer. Any replica of the stream may answer, so an event may be outdated or already removed.
func (l *Log) Some(ctx context.Context, names []subject.JobName) (map[subject.JobName]Entry, error) {
	subjects := make([]string, len(names))
	for i, n := range names {
		subjects[i] = l.b.Names().Task(n.Kind, n.Tenant, n.ID)
	}
	stored, err := l.b.Lasts(ctx, l.b.Names().Tasks(), subjects)
	if err != nil {
		return nil, fmt.Errorf("get %d jobs: %w", len(names), err)
	}
	jobs := make(map[subject.JobName]Entry, len(stored))
	for _, m := range stored {
		n, err := l.b.Names().ParseTask(m.Subject)
		if err != nil {
			return nil, fmt.Errorf("get %d jobs: %w", len(names), err)
		}
		if jobs[n], err = decodeStored(n, m); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// Find reads a job's current state from the leader. It does not need the tenant, because the ID is
// derived from the tenant. It returns ErrNotFound if the log does not have the job.
func (l *Log) Find(ctx context.Context, kind subject.Kind, id string) (Entry, error) {
	m, err := l.b.Last(ctx, l.b.Names().Tasks(), l.b.Names().TaskAnyTenant(kind, id))
	if errors.Is(err, broker.ErrNoMessage) {
		return Entry{}, fmt.Errorf("%s %s: %w", kind, id, ErrNotFound)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("find %s %s: %w", kind, id, err)
	}
	n, err := l.b.Names().ParseTask(m.Subject)
	if err != nil {
		return Entry{}, fmt.Errorf("find %s %s: %w", kind, id, err)
	}
	return decodeStored(n, m)
}

// History reads the latest events of a job, oldest first. limit bounds their number, and cut
// reports whether there were more. A missing job has no events.
func (l *Log) History(ctx context.Context, n subject.JobName, limit int) (events []Recorded, cut bool, err error) {
	for from := uint64(1); ; {
		page, err := l.b.Page(ctx, l.b.Names().Tasks(), l.b.Names().Task(n.Kind, n.Tenant, n.ID), from)
		if err != nil {
			return nil, false, fmt.Errorf("read history of %s %s: %w", n.Kind, n.ID, err)
		}
		if len(page) == 0 {
			return events, cut, nil
		}
		for _, m := range page {
			e, err := decodeStored(n, m)
			if err != nil {
				return nil, false, err
			}
			events, from = append(events, Recorded{Entry: e, Header: m.Header}), m.Seq+1
		}
		if over := len(events) - limit; over > 0 {
			events, cut = slices.Delete(events, 0, over), true
		}
		if events[len(events)-1].Terminal() {
			return events, cut, nil
		}
	}
}

// Has reports whether the log has a job. seq is the sequence of one of the job's events, which may
// have been read from a replica that is ahead of the leader. A leader that has not stored this
// event cannot confirm that the job is gone, so Has then returns true.
func (l *Log) Has(ctx context.Context, n subject.JobName, seq uint64) (bool, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	switch {
	case err != nil:
		return false, err
	case s.CachedInfo().State.LastSeq < seq:
		return true, nil
	}
	_, err = l.Get(ctx, n)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// get is like Get but uses the given read and also returns the size of the stored event.
func (l *Log) get(ctx context.Context, n subject.JobName, read func(ctx context.Context, stream, subject string) (broker.Stored, error)) (Entry, int, error) {
	m, err := read(ctx, l.b.Names().Tasks(), l.b.Names().Task(n.Kind, n.Tenant, n.ID))
	if errors.Is(err, broker.ErrNoMessage) {
		return Entry{}, 0, fmt.Errorf("%s %s: %w", n.Kind, n.ID, ErrNotFound)
	}
	if err != nil {
		return Entry{}, 0, fmt.Errorf("get %s %s: %w", n.Kind, n.ID, err)
	}
	e, err := decodeStored(n, m)
	return e, len(m.Data), err
}

package joblog

import (
	"context"
	"errors"
	"strconv"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// WorkItem is a stored work item.
type WorkItem struct {
	*genbusv1.WorkItem
	// Stream and Seq are where it was read.
	Stream string
	Seq    uint64
	// Waits is true for an item in the backlog.
	Waits bool
	// Recorded is its subject.HeaderRecorded; empty without one.
	Recorded string
}

// NameOf is the name of a work item's job.
func NameOf(item *genbusv1.WorkItem) subject.JobName {
	return subject.JobName{Kind: subject.Kind(item.GetKind()), Tenant: item.GetTenant(), ID: item.GetId()}
}

// Meaning is what a work item is to be taken for.
type Meaning int

// The meanings. An item is stored before its job's first event, and may outlive the log.
const (
	// Current: the log has the job, which goes on from its last event, or has ended.
	Current Meaning = iota
	// PendingFirstEvent: its first event was never written, as its admission ended before that.
	// Whatever reads the item first writes it.
	PendingFirstEvent
	// Removed: the item is gone, as its job was erased: the item goes first.
	Removed
	// StaleItem: the item is of no job. The log has another request's under its id, or has
	// erased this one while the item was on its way into the ready window. It takes two looks,
	// SecondLook apart, to know.
	StaleItem
	// Lost: the log had the job and has lost it, or may have: the stream was restored from
	// a backup, or created again. The job is not run.
	Lost
)

// LostAfter is the age from which a queued work item without a log is given up: a holder
// may have begun it, and a log that was restored from a backup does not have that.
const LostAfter = time.Hour

// SecondLook is the wait before a work item is believed to be stale, or a log or a body to be
// lost. They are read from their leader, but one that has just lost the lead may answer once
// more.
const SecondLook = 5 * time.Second

// Resolve says what a work item means, and gives the job where the log has one. It is the
// only home of that rule. By a wrong clock nothing is given up or recorded: the error.
func (l *Log) Resolve(ctx context.Context, i WorkItem) (Entry, Meaning, error) {
	e, err := l.Get(ctx, NameOf(i.WorkItem))
	if err == nil {
		return e, i.In(e), nil
	}
	if !errors.Is(err, ErrNotFound) {
		return Entry{}, 0, err
	}
	m, err := l.withoutLog(ctx, i)
	return Entry{}, m, err
}

// In is Resolve for an item whose log is known. An end is an end for every item.
func (i WorkItem) In(e Entry) Meaning {
	if e.Terminal() || task.SameRequest(i, e.Job.GetExecution()) {
		return Current
	}
	return StaleItem
}

// withoutLog reads the item first, though the caller has it: one of a batch that may not be on disk cannot
// be read (broker.Settled), and its job does not begin.
func (l *Log) withoutLog(ctx context.Context, i WorkItem) (Meaning, error) {
	removed, err := l.Removed(ctx, i.Stream, i.Seq)
	switch {
	case err != nil:
		return 0, err
	case removed:
		return Removed, nil
	case i.Recorded != "":
		return l.recorded(ctx, i)
	default:
		return l.resolveUnlogged(i)
	}
}

// Removed reports whether a work item was taken out of its stream, as it is before its job
// is erased. One that was lost with the stream was not: the stream that was created after
// that begins with a higher sequence.
func (l *Log) Removed(ctx context.Context, stream string, seq uint64) (bool, error) {
	if _, err := l.b.At(ctx, stream, seq); !errors.Is(err, broker.ErrNoMessage) {
		return false, err
	}
	s, err := l.b.Stream(ctx, stream)
	if err != nil {
		return false, err
	}
	return seq >= s.CachedInfo().Config.FirstSeq, nil
}

// recorded is for an item that names a sequence that an event of the job had. A stream that
// does not reach it, or has another job's event there, is not the one in which the job was
// recorded.
func (l *Log) recorded(ctx context.Context, i WorkItem) (Meaning, error) {
	seq, err := strconv.ParseUint(i.Recorded, 10, 64)
	if err != nil {
		return StaleItem, nil //nolint:nilerr // it was recorded, whatever else the header was to say
	}
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return 0, err
	}
	if s.CachedInfo().State.LastSeq < seq {
		return Lost, nil
	}
	there, err := l.b.At(ctx, l.b.Names().Tasks(), seq)
	n := NameOf(i.WorkItem)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return StaleItem, nil
	case err != nil:
		return 0, err
	case there.Subject != l.b.Names().Task(n.Kind, n.Tenant, n.ID):
		return Lost, nil
	default: // it has been recorded again since the caller looked, and the write finds it
		return PendingFirstEvent, nil
	}
}

// Erased reports whether the event that the log stored at a sequence, some time after began,
// was erased. Otherwise it is there, or was lost: the log was created after began, or is an
// older copy that does not reach the sequence, or has another event there by now. Each age
// is measured by one clock, as that of the broker may differ from this replica's.
func (l *Log) Erased(ctx context.Context, seq uint64, began time.Time) (bool, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return false, err
	}
	log := s.CachedInfo()
	if log.TimeStamp.Sub(log.Created) <= time.Since(began) || log.State.LastSeq < seq {
		return false, nil
	}
	_, err = l.b.At(ctx, l.b.Names().Tasks(), seq)
	if errors.Is(err, broker.ErrNoMessage) {
		return true, nil
	}
	return false, err
}

// resolveUnlogged is for an item that no mark says was recorded. One that is attached is never
// given up: it is not submitted.
//
// Nor is one that waits for its turn, however old: what is made ready is marked as
// recorded, and the unmarked original is deleted. There are two originals of jobs that may
// have begun: one that a crash left next to its marked copy, until the dispatcher's next
// turn, and one that is back with a restored GENBUS_WAIT. The log knows their jobs, unless
// it has lost them too. It is never created next to accepted jobs (see
// broker.Streams.Ensure), so an operator has restored it then, and takes out what was
// submitted since the backup before anything is submitted (docs/deploy.md). A mark by
// admission could not tell these originals from others either.
func (l *Log) resolveUnlogged(i WorkItem) (Meaning, error) {
	if i.Waits || i.GetAttached() != nil {
		return PendingFirstEvent, nil
	}
	now, err := l.b.Clock().Now()
	if err == nil && now.Sub(i.GetAcceptedAt().AsTime()) > LostAfter {
		return Lost, nil
	}
	return PendingFirstEvent, err
}

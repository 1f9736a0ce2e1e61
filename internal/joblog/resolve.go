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
	// Stream and Seq locate the item.
	Stream string
	Seq    uint64
	// Waits reports whether the item is in the backlog.
	Waits bool
	// Recorded is the value of subject.HeaderRecorded, or empty.
	Recorded string
}

// NameOf returns the name of a work item's job.
func NameOf(item *genbusv1.WorkItem) subject.JobName {
	return subject.JobName{Kind: subject.Kind(item.GetKind()), Tenant: item.GetTenant(), ID: item.GetId()}
}

// Meaning classifies a work item according to its job's log.
type Meaning int

// An item is stored before its job's first event and may outlive the log.
const (
	// Current means that the log has the job, running or ended.
	Current Meaning = iota
	// PendingFirstEvent means that the first event was never written. The first reader of the item
	// writes it.
	PendingFirstEvent
	// Removed means that the item is gone because its job was erased. An erasure removes the item
	// first.
	Removed
	// StaleItem means that the item has no job. Either the log has another request's job under the
	// same ID, or the item's job was erased while the item was being made ready. Confirm it with a
	// second read after SecondLook.
	StaleItem
	// Lost means that the log had, or may have had, the job and lost it when the stream was
	// restored or recreated. The job must not run.
	Lost
)

// LostAfter is the age at which a ready item without a log counts as lost. A holder may have
// started the job, and a restored log would not show it.
const LostAfter = time.Hour

// SecondLook is how long to wait before reading again to confirm that an item is stale or that a
// log or body is lost. A leader that was just replaced may still answer one read.
const SecondLook = 5 * time.Second

// Resolve returns the meaning of a work item, and its job if the log has it. No other code decides
// this. If the decision depends on the time and the clock is wrong, Resolve returns the clock's
// error.
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

// In returns the meaning of an item for which the log has the entry e. An ended job is Current for
// every item.
func (i WorkItem) In(e Entry) Meaning {
	if e.Terminal() || task.SameRequest(i, e.Job.GetExecution()) {
		return Current
	}
	return StaleItem
}

// withoutLog returns the meaning of an item whose job is not in the log. It rereads the item first.
// If the item belongs to a batch that may not be on disk, the read fails, so the job does not start
// (see broker.Broker.Synced).
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

// Removed reports whether a work item was removed from its stream, for example before its job was
// erased. An item that was lost with its stream does not count, because the recreated stream starts
// at a higher sequence.
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

// recorded returns the meaning of an item whose mark is the sequence of one of its job's events. If
// the log does not reach that sequence or has another job's event there, it is not the log in which
// the job was recorded.
func (l *Log) recorded(ctx context.Context, i WorkItem) (Meaning, error) {
	seq, err := strconv.ParseUint(i.Recorded, 10, 64)
	if err != nil {
		return StaleItem, nil //nolint:nilerr // any mark proves that the job was recorded
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
	default: // recorded again in the meantime; the commit will detect it
		return PendingFirstEvent, nil
	}
}

// Erased reports whether the event at seq, which was stored after began, has been erased. It
// returns false if the event exists or was lost. An event was lost if the log was created after
// began, does not reach seq or has another event there. Each age is measured with a single clock,
// because the broker's clock may differ from this replica's.
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

// resolveUnlogged returns the meaning of an item without a mark. An attached item, which is not
// submitted, and an item in the backlog never count as lost, no matter how old they are.
//
// The dispatcher marks ready copies and deletes the originals, so a backlog item without a mark has
// normally never been ready. There are two kinds of originals whose jobs may nevertheless have
// started: one that a crash left next to its copy, and one in a restored GENBUS_WAIT. The log has
// their jobs unless it was lost as well. In that case, an operator must have restored the log,
// because genbus does not create a log if there are accepted jobs (see broker.Streams.Ensure).
// Before any job is submitted again, the operator removes the jobs that were submitted since the
// backup (docs/deploy.md). A mark set by admission would not identify these originals.
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

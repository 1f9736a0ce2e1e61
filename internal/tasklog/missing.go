package tasklog

import (
	"context"
	"errors"
	"strconv"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Missing says why the log has no event of a job whose work item is there.
type Missing int

// The reasons.
const (
	// Unrecorded: its first event was never written, as far as the item says.
	Unrecorded Missing = iota
	// Erased: the job was in the log, and was erased.
	Erased
	// Lost: the job was in the log, and the log has lost it: the stream was restored
	// from a backup, or made anew.
	Lost
)

// Missing tells the reasons apart by what the work item has as
// subject.HeaderRecorded: a sequence that an event of the job had. A stream that
// does not reach it, or has another job's event there, is not the one in which the
// job was recorded. The caller has found the log empty.
func (l *Log) Missing(ctx context.Context, n subject.TaskName, recorded string) (Missing, error) {
	if recorded == "" {
		return Unrecorded, nil
	}
	seq, err := strconv.ParseUint(recorded, 10, 64)
	if err != nil {
		return Erased, nil //nolint:nilerr // it was recorded, whatever else the header was to say
	}
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return 0, err
	}
	if s.CachedInfo().State.LastSeq < seq {
		return Lost, nil
	}
	there, err := l.b.At(ctx, l.b.Names().Tasks(), seq)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return Erased, nil
	case err != nil:
		return 0, err
	case there.Subject != l.b.Names().Task(n.Kind, n.Tenant, n.ID):
		return Lost, nil
	default: // it has been recorded again since the caller looked
		return Unrecorded, nil
	}
}

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Accepted returns a job that is accepted and not in the log yet: its work item is
// stored, and its caller was answered, while the log did not take the first event. That
// is written here, as a consumer would; where the log still does not answer, the entry
// has no sequence. Without a work item the error is joblog.ErrNotFound. The log
// is read after the item, and then the item again: that of a job that is erased is removed
// before its log is.
func (s Items) Accepted(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	found, err := s.Find(ctx, n)
	if errors.Is(err, broker.ErrNoMessage) {
		return joblog.Entry{}, fmt.Errorf("%s %s: %w", n.Kind, n.ID, joblog.ErrNotFound)
	}
	if err != nil {
		return joblog.Entry{}, err
	}
	item, err := found.Decode()
	if err != nil {
		return joblog.Entry{}, err
	}
	first := task.FromWork(item)
	current, means, err := s.log.Resolve(ctx, s.LogItem(found, item))
	switch {
	case clock.Refuses(err), err == nil && means == joblog.Lost:
		return joblog.Entry{Event: first}, nil // its end is for the consumer to say
	case err != nil:
		return joblog.Entry{}, err
	case current.Job != nil:
		return current, nil
	case means != joblog.PendingFirstEvent:
		return joblog.Entry{}, fmt.Errorf("%s %s: %w", n.Kind, n.ID, joblog.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, acceptedWithin)
	defer cancel()
	entry, err := s.Begin(ctx, s.LogItem(found, item), time.Time{})
	if err != nil {
		return joblog.Entry{Event: first}, nil // the job is accepted, whether or not the log says so yet
	}
	return entry, nil
}

// acceptedWithin bounds the write of the first event, and the look for the item after it, for a
// caller who waits. Where the item is gone by then Confirm takes up to 15 s longer.
const acceptedWithin = 2 * time.Second

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

// Accepted returns a job whose work item is stored but whose first event is missing from the log.
// It writes the event as a consumer would. If the log still does not answer, the entry has no
// sequence. If there is no work item, Accepted returns joblog.ErrNotFound. It reads the item, then
// the log, then the item again, because an erasure removes the item before the log.
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
		return joblog.Entry{Event: first}, nil // its consumer ends it
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
		return joblog.Entry{Event: first}, nil // accepted, whether or not it is logged
	}
	return entry, nil
}

// acceptedWithin bounds writing the first event and checking the item while a caller waits. If the
// item is gone, Confirm takes up to 15 s longer.
const acceptedWithin = 2 * time.Second

package consumer

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// failItem ends a job that this process does not hold, whether or not its log
// has begun; whoever is first wins. The feed has its end when it returns nil.
func (c *Consumer) failItem(ctx context.Context, item *genbusv1.WorkItem, f *fault.Error) error {
	current, err := c.Log.Get(ctx, nameOf(item))
	if errors.Is(err, tasklog.ErrNotFound) {
		current, err = c.Log.Commit(ctx, task.FailedAtOnce(item, time.Now(), f.TaskError()), 0)
		current, err = wonOrCurrent(current, err)
	}
	for err == nil && !current.Terminal() {
		var e task.Event
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
		current, err = wonOrCurrent(c.Log.Commit(ctx, e, current.Seq))
	}
	if err != nil {
		return err
	}
	return c.Log.Finish(ctx, current)
}

// wonOrCurrent makes a lost commit a success that shows the winner's entry.
func wonOrCurrent(e tasklog.Entry, err error) (tasklog.Entry, error) {
	if lost, ok := errors.AsType[*tasklog.LostError](err); ok {
		return lost.Current, nil
	}
	return e, err
}

func nameOf(item *genbusv1.WorkItem) subject.TaskName {
	return subject.TaskName{Kind: subject.Kind(item.GetKind()), Tenant: item.GetTenant(), ID: item.GetId()}
}

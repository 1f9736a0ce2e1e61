package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// failLogged fails a job that this process does not hold, if its log exists and
// has not ended; whoever is first wins.
func (c *Consumer) failLogged(ctx context.Context, name subject.TaskName, f *fault.Error) error {
	current, err := c.Log.Get(ctx, name)
	if errors.Is(err, tasklog.ErrNotFound) {
		return nil
	}
	for err == nil && !current.Terminal() {
		var e task.Event
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
		var lost *tasklog.LostError
		if current, err = c.Log.Commit(ctx, e, current.Seq); errors.As(err, &lost) {
			current, err = lost.Current, nil
		}
	}
	if err != nil {
		return err
	}
	return c.Log.Finish(ctx, current)
}

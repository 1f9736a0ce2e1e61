package api

import (
	"context"

	"github.com/genbus/genbus/internal/subject"
)

// erase cancels a job that has not ended, and removes what is stored of it.
// Afterwards the same request id makes a new job.
func (c *core) erase(ctx context.Context, n subject.TaskName) error {
	e, err := c.cancel(ctx, n, byCaller)
	if err != nil {
		return err
	}
	if err := c.eraser.Erase(ctx, e); err != nil {
		return meaning(ctx, n, err)
	}
	return nil
}

package api

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// eraseTimeout bounds the whole of an erasure.
	eraseTimeout = 30 * time.Second
	// holderPatience is how long the holder of a cancelled job has to let it go.
	holderPatience = 10 * time.Second
)

// erase cancels a video task that has not ended, waits until nobody works on it,
// and then removes what is stored of it: bodies and copies first, the events
// last, so that an erasure that fails can be repeated.
func (c *core) erase(ctx context.Context, n subject.TaskName) error {
	if _, err := c.cancel(ctx, n); err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, eraseTimeout,
		fault.New(fault.AcceptanceUnknown, "erase %s: no answer within %s; send the same request again", n.ID, eraseTimeout))
	defer stop()
	if err := c.admission.Withdraw(ctx, n, holderPatience); err != nil {
		return meaning(ctx, n, err)
	}
	// The holder may have stored its last files after the cancel.
	e, err := c.get(ctx, n)
	if err != nil {
		return err
	}
	var failed []error
	for _, ref := range storedFor(video(e)) {
		failed = append(failed, c.bodies.Delete(ctx, publisher.BodyOf(ref)))
	}
	if err := errors.Join(failed...); err != nil {
		return meaning(ctx, n, err)
	}
	if err := c.log.Erase(ctx, n); err != nil {
		return meaning(ctx, n, err)
	}
	return nil
}

// storedFor lists what the object store has of a task.
func storedFor(t *genbusv1.VideoTask) []*genbusv1.BlobRef {
	refs := t.GetArchive().GetFiles()
	if input := t.GetExecution().GetInput(); input != nil {
		refs = append(refs[:len(refs):len(refs)], input)
	}
	return refs
}

package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// FailUnreadable keeps a work item that cannot be decoded as a dead letter, and fails its
// job, which the item's name still tells. The item can go when it returns nil.
func (h *Holder) FailUnreadable(ctx context.Context, n subject.WorkName, subj string, data []byte, cause error) error {
	f := errcode.New(errcode.Internal, "the work item of job %s is unreadable: %w", n.ID, cause)
	letter := &genbusv1.DeadLetter{Error: f.TaskError(), Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Subject: subj, Data: data}
	if err := h.Letters.DeadLetters.Put(ctx, letter, n.ID, "item"); err != nil {
		return err
	}
	h.Logger.Warn("a work item that cannot be read is a dead letter; its job fails", "subject", subj, telemetry.KeyError, cause)
	return h.failItem(ctx, &genbusv1.WorkItem{
		Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Route: n.Route, AcceptedAt: timestamppb.Now(),
	}, f)
}

// failItem ends a job that this process does not hold, whether or not its log has begun.
// The feed has its end when it returns nil.
func (h *Holder) failItem(ctx context.Context, item *genbusv1.WorkItem, f *errcode.Error) error {
	current, err := h.Log.Get(ctx, Name(item))
	if errors.Is(err, joblog.ErrNotFound) {
		current, err = h.Log.CommitOrCurrent(ctx, task.FailedAtOnce(item, time.Now(), f.TaskError()), 0)
	}
	for err == nil && !current.Terminal() {
		var e task.Event
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
		current, err = h.Log.CommitOrCurrent(ctx, e, current.Seq)
	}
	if err != nil {
		return fmt.Errorf("end job %s: %w", item.GetId(), err)
	}
	return h.Log.Finish(ctx, current)
}

package deadletter

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

// FailUnreadable stores a dead letter for a work item that cannot be decoded, and fails the job
// that the subject identifies. If it succeeds, the item can be removed.
func (d Store) FailUnreadable(ctx context.Context, log *joblog.Log, n subject.WorkName, subj string, data []byte, cause error) error {
	f := errcode.New(errcode.Internal, "the work item of job %s is unreadable: %w", n.ID, cause)
	letter := &genbusv1.DeadLetter{Error: f.TaskError(), Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Subject: subj, Data: data}
	if err := d.Put(ctx, letter, n.ID, "item"); err != nil {
		return err
	}
	d.Logger.Warn("moved unreadable work item to dead letters, failing job", "subject", subj, telemetry.KeyError, cause)
	return d.failItem(ctx, log, &genbusv1.WorkItem{
		Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Route: n.Route, AcceptedAt: timestamppb.Now(),
	}, f)
}

// failItem fails a job that has no holder, even if the job is not in the log. On success, its
// terminal event is in the feed, and any dead letter that the event requires is stored.
func (d Store) failItem(ctx context.Context, log *joblog.Log, item *genbusv1.WorkItem, f *errcode.Error) error {
	current, err := log.Get(ctx, joblog.NameOf(item))
	if errors.Is(err, joblog.ErrNotFound) {
		current, err = log.CommitOrCurrent(ctx, task.FailedAtOnce(item, time.Now(), f.TaskError()), 0)
	}
	for err == nil && !current.Terminal() {
		var e task.Event
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
		current, err = log.CommitOrCurrent(ctx, e, current.Seq)
	}
	if err != nil {
		return fmt.Errorf("end job %s: %w", item.GetId(), err)
	}
	if v, ok := current.Job.(*genbusv1.VideoTask); ok && task.LeavesDeadLetter(v) {
		if err := d.PutEnd(ctx, WorkItemFromLog(v), v); err != nil {
			return err
		}
	}
	return log.Finish(ctx, current)
}

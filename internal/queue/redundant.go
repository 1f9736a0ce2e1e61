package queue

import (
	"context"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Redundant reports whether a job, which has not ended, goes on without this work item of its
// request, by one on another route: the item that it was made of, where this one is of another
// send; or a copy of this one on the route that the log names, where that is served. A move of
// an operator that was cut off leaves two copies, and its route may have come back since. There
// the other one stays until the job has ended or an operator has moved it; of two items on one
// route the dispatcher keeps the ready one. It takes two looks to know.
func (q *Queue) Redundant(ctx context.Context, item *genbusv1.WorkItem, e joblog.Entry) (bool, error) {
	own, route := task.SameAcceptance(item, e.Job.GetCreatedAt()), e.Job.GetExecution().GetRoute()
	if own && (item.GetRoute() == route || !q.configured(subject.Kind(item.GetKind()), route)) {
		return false, nil
	}
	all, err := q.Items.All(ctx, e.Name())
	for _, i := range all {
		other, err := i.Decode()
		if err == nil && other.GetRoute() != item.GetRoute() && task.SameAcceptance(other, e.Job.GetCreatedAt()) && (!own || other.GetRoute() == route) {
			return true, nil
		}
	}
	return false, err
}

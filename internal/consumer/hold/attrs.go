package hold

import (
	"log/slog"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Name is the name of a work item's job.
func Name(item *genbusv1.WorkItem) subject.TaskName {
	return subject.TaskName{Kind: subject.Kind(item.GetKind()), Tenant: item.GetTenant(), ID: item.GetId()}
}

// Attrs are what a log record says of a job, and more.
func Attrs(name subject.TaskName, route string, more ...any) []any {
	return append([]any{slog.String(telemetry.KeyJobID, name.ID), slog.String(telemetry.KeyTenant, name.Tenant), slog.String("route", route)}, more...)
}

// EndAttrs are what a log record says of a job's end.
func EndAttrs(e joblog.Entry) []any {
	return Attrs(e.Name(), e.Job.GetExecution().GetRoute(), "status", task.StatusWord(e.Job.GetStatus()), "code", e.Job.GetError().GetCode())
}

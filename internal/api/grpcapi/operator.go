package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/genbus/genbus/internal/api/core"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// operators reports whether a method is for operators alone.
func (m grpcMethod) operators() bool {
	return strings.HasPrefix(string(m), "/"+genbusv1.OperatorService_ServiceDesc.ServiceName+"/")
}

// operatorService translates between gRPC and the operator's work. The interceptors
// let operators in only.
type operatorService struct {
	genbusv1.UnimplementedOperatorServiceServer
	core     *core.Core
	operator operator.Operator
	log      *slog.Logger
}

// did logs a call that changes something, whatever became of it. Of a refusal only
// the code is logged: its text may say what a request holds.
func (s operatorService) did(ctx context.Context, what string, err error, attrs ...any) {
	attrs = append(attrs, telemetry.KeyOp, what, "operator", callOf(ctx).operator, telemetry.KeyRequestID, callOf(ctx).id[0])
	var f *errcode.Error
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "operator's call", attrs...)
	case errors.As(err, &f):
		s.log.WarnContext(ctx, "operator's call was refused", append(attrs, telemetry.KeyCode, string(f.Code))...)
	default:
		s.log.WarnContext(ctx, "operator's call failed", append(attrs, telemetry.KeyError, err)...)
	}
}

// didTo is did for a job that the caller has named.
func (s operatorService) didTo(ctx context.Context, what string, err error, n subject.TaskName) {
	s.did(ctx, what, err, telemetry.KeyJobID, errcode.Clip(n.ID, 64), telemetry.KeyTenant, errcode.Clip(n.Tenant, 64))
}

// ListJobs is in operator_service.proto, as are the others.
func (s operatorService) ListJobs(ctx context.Context, m *genbusv1.ListJobsRequest) (*genbusv1.ListJobsResponse, error) {
	page, err := s.operator.Jobs.Search(ctx, m)
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return page, nil
}

// GetJob reads a job. Its error may quote the prompt: who read it is logged.
func (s operatorService) GetJob(ctx context.Context, m *genbusv1.GetJobRequest) (*genbusv1.GetJobResponse, error) {
	n, err := s.operator.Jobs.Find(ctx, m)
	var out *genbusv1.GetJobResponse
	if err == nil {
		var e joblog.Entry
		if e, err = s.core.Jobs.Get(ctx, n); err == nil {
			out, err = s.operator.Jobs.Describe(ctx, e)
		}
	}
	if s.didTo(ctx, "get_job", err, n); err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	sayJob(ctx, n.ID)
	return out, nil
}

// ListDeadLetters reads a page of letters.
func (s operatorService) ListDeadLetters(ctx context.Context, m *genbusv1.ListDeadLettersRequest) (*genbusv1.ListDeadLettersResponse, error) {
	page, err := s.operator.Letters.List(ctx, operator.Query{
		Kind: m.GetKind(), Tenant: m.GetTenant(), Code: m.GetCode(), Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	})
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.ListDeadLettersResponse{Letters: page.Letters, NextPageToken: page.Next}, nil
}

// GetDeadLetter reads a letter. A letter holds a prompt: who read it is
// logged too.
func (s operatorService) GetDeadLetter(ctx context.Context, m *genbusv1.GetDeadLetterRequest) (*genbusv1.GetDeadLetterResponse, error) {
	l, err := s.operator.Letters.Letter(ctx, m.GetSequence())
	s.did(ctx, "get_dead_letter", err, telemetry.KeySequence, m.GetSequence())
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.GetDeadLetterResponse{Letter: l}, nil
}

// RedriveDeadLetter makes a new job.
func (s operatorService) RedriveDeadLetter(ctx context.Context, m *genbusv1.RedriveDeadLetterRequest) (*genbusv1.RedriveDeadLetterResponse, error) {
	e, err := s.operator.Letters.Redrive(ctx, m.GetSequence())
	if err = s.made(ctx, "redrive_dead_letter", e, err, m.GetSequence()); err != nil {
		return nil, err
	}
	return &genbusv1.RedriveDeadLetterResponse{Id: e.Job.GetId(), Status: e.Job.GetStatus()}, nil
}

// AttachUpstreamTask makes a new job of a task that the upstream has.
func (s operatorService) AttachUpstreamTask(ctx context.Context, m *genbusv1.AttachUpstreamTaskRequest) (*genbusv1.AttachUpstreamTaskResponse, error) {
	e, err := s.operator.Letters.Attach(ctx, m.GetSequence(), m.GetUpstreamTaskId())
	if err = s.made(ctx, "attach_upstream_task", e, err, m.GetSequence()); err != nil {
		return nil, err
	}
	return &genbusv1.AttachUpstreamTaskResponse{Id: e.Job.GetId(), Status: e.Job.GetStatus()}, nil
}

// made logs which job was made of a letter.
func (s operatorService) made(ctx context.Context, what string, e joblog.Entry, err error, seq uint64) error {
	attrs := []any{telemetry.KeySequence, seq}
	if err == nil {
		sayJob(ctx, e.Job.GetId())
		attrs = append(attrs, telemetry.KeyJobID, e.Job.GetId(), telemetry.KeyTenant, e.Job.GetTenant(), telemetry.KeyStatus, task.StatusWord(e.Job.GetStatus()))
	}
	s.did(ctx, what, err, attrs...)
	if err != nil {
		return core.Explain(ctx, subject.TaskName{}, err)
	}
	return nil
}

// DropDeadLetter removes a letter.
func (s operatorService) DropDeadLetter(ctx context.Context, m *genbusv1.DropDeadLetterRequest) (*genbusv1.DropDeadLetterResponse, error) {
	err := s.operator.Letters.Drop(ctx, m.GetSequence())
	s.did(ctx, "drop_dead_letter", err, telemetry.KeySequence, m.GetSequence())
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.DropDeadLetterResponse{}, nil
}

// CancelJob ends a job, as the tenants' own cancels do.
func (s operatorService) CancelJob(ctx context.Context, m *genbusv1.CancelJobRequest) (*genbusv1.CancelJobResponse, error) {
	n := subject.TaskName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	var e joblog.Entry
	err := operator.CheckName(n)
	if err == nil {
		e, err = s.core.Jobs.Cancel(ctx, n, core.ByOperator)
	}
	if s.didTo(ctx, "cancel_job", err, n); err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	sayJob(ctx, n.ID)
	return &genbusv1.CancelJobResponse{Id: n.ID, Status: e.Job.GetStatus()}, nil
}

// EraseJob removes a job that has ended.
func (s operatorService) EraseJob(ctx context.Context, m *genbusv1.EraseJobRequest) (*genbusv1.EraseJobResponse, error) {
	n := subject.TaskName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	err := s.operator.Jobs.Erase(ctx, n)
	s.didTo(ctx, "erase_job", err, n)
	if err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	sayJob(ctx, n.ID)
	return &genbusv1.EraseJobResponse{}, nil
}

// ListRoutes reads the state of every route.
func (s operatorService) ListRoutes(ctx context.Context, _ *genbusv1.ListRoutesRequest) (*genbusv1.ListRoutesResponse, error) {
	states, err := s.operator.Routes.RouteStates(ctx)
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.ListRoutesResponse{Routes: states}, nil
}

// PauseRoute stops a route's submissions.
func (s operatorService) PauseRoute(ctx context.Context, m *genbusv1.PauseRouteRequest) (*genbusv1.PauseRouteResponse, error) {
	state, err := s.operator.Routes.Pause(ctx, m.GetKind(), m.GetName())
	s.did(ctx, "pause_route", err, telemetry.KeyKind, errcode.Clip(m.GetKind(), 16), telemetry.KeyRoute, errcode.Clip(m.GetName(), 64))
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.PauseRouteResponse{Route: state}, nil
}

// ResumeRoute lets a route submit again.
func (s operatorService) ResumeRoute(ctx context.Context, m *genbusv1.ResumeRouteRequest) (*genbusv1.ResumeRouteResponse, error) {
	state, err := s.operator.Routes.Resume(ctx, m.GetKind(), m.GetName())
	s.did(ctx, "resume_route", err, telemetry.KeyKind, errcode.Clip(m.GetKind(), 16), telemetry.KeyRoute, errcode.Clip(m.GetName(), 64))
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.ResumeRouteResponse{Route: state}, nil
}

// ListOrphans lists the routes that have jobs and are not configured.
func (s operatorService) ListOrphans(ctx context.Context, _ *genbusv1.ListOrphansRequest) (*genbusv1.ListOrphansResponse, error) {
	routes, err := s.operator.Routes.Orphans(ctx)
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.ListOrphansResponse{Routes: routes}, nil
}

// MoveOrphans moves jobs of a route that is not configured.
func (s operatorService) MoveOrphans(ctx context.Context, m *genbusv1.MoveOrphansRequest) (*genbusv1.MoveOrphansResponse, error) {
	settled, err := s.operator.Routes.MoveOrphans(ctx, m)
	s.did(ctx, "move_orphans", err, telemetry.KeyKind, errcode.Clip(m.GetKind(), 16), telemetry.KeyRoute, errcode.Clip(m.GetName(), 64), "to", errcode.Clip(m.GetTo(), 64),
		"moved", settled.GetMoved(), "ended", settled.GetEnded(), "left", len(settled.GetLeft()))
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.MoveOrphansResponse{Settled: settled}, nil
}

// FailOrphans ends jobs of a route that is not configured.
func (s operatorService) FailOrphans(ctx context.Context, m *genbusv1.FailOrphansRequest) (*genbusv1.FailOrphansResponse, error) {
	settled, err := s.operator.Routes.FailOrphans(ctx, m)
	s.did(ctx, "fail_orphans", err, telemetry.KeyKind, errcode.Clip(m.GetKind(), 16), telemetry.KeyRoute, errcode.Clip(m.GetName(), 64),
		"ended", settled.GetEnded(), "left", len(settled.GetLeft()))
	if err != nil {
		return nil, core.Explain(ctx, subject.TaskName{}, err)
	}
	return &genbusv1.FailOrphansResponse{Settled: settled}, nil
}

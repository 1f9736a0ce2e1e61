package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/genbus/genbus/internal/api/core"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// operators reports whether only operators may call a method.
func (m grpcMethod) operators() bool {
	return strings.HasPrefix(string(m), "/"+genbusv1grpc.OperatorService_ServiceDesc.ServiceName+"/")
}

// acts reports whether a method changes something or creates a job, judging by the method's name.
func (m grpcMethod) acts() bool {
	return !strings.HasPrefix(m.name(), "Get") && !strings.HasPrefix(m.name(), "List")
}

// name returns the method's name without its service.
func (m grpcMethod) name() string { return string(m[strings.LastIndexByte(string(m), '/')+1:]) }

// operatorService translates between gRPC and package operator. The interceptor admits only
// operators.
type operatorService struct {
	genbusv1grpc.UnimplementedOperatorServiceServer
	core     *core.Core
	operator operator.Operator
	log      *slog.Logger
}

// record runs an action and records it with its outcome in the audit log and in the process log. If
// an error has a code, the process log gets only the code, because the message may quote the
// request.
func (s operatorService) record(ctx context.Context, r *genbusv1.AuditRecord, do func(*genbusv1.AuditRecord) error) error {
	c := callOf(ctx)
	r.Operator, r.Action, r.RequestId = c.operator, c.method.name(), c.id[0]
	clip(r)
	err := s.operator.Audit.Record(ctx, r, func(r *genbusv1.AuditRecord) error {
		if err := do(r); err != nil {
			return core.Explain(ctx, subject.JobName{Kind: subject.Kind(r.GetKind()), Tenant: r.GetTenant(), ID: r.GetJobId()}, err)
		}
		return nil
	})
	attrs := append(attributes(r), telemetry.KeyOp, r.GetAction(), "operator", r.GetOperator(), telemetry.KeyRequestID, r.GetRequestId())
	var f *errcode.Error
	switch {
	case err == nil:
		s.log.InfoContext(ctx, "completed operator call", attrs...)
	case errors.As(err, &f) && r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_FAILED:
		s.log.WarnContext(ctx, "refused operator call", append(attrs, telemetry.KeyCode, string(f.Code))...)
	case f != nil:
		s.log.WarnContext(ctx, "operator call failed", append(attrs, telemetry.KeyCode, string(f.Code))...)
	default:
		s.log.WarnContext(ctx, "operator call failed", append(attrs, telemetry.KeyError, err)...)
	}
	if err != nil {
		return err
	}
	if id := cmp.Or(r.GetNewJobId(), r.GetJobId()); id != "" {
		setJobID(ctx, id)
	}
	return nil
}

// clip truncates the names that the caller sent.
func clip(r *genbusv1.AuditRecord) {
	r.Kind, r.Route = errcode.Clip(r.GetKind(), 16), errcode.Clip(r.GetRoute(), 64)
	r.Tenant, r.JobId = errcode.Clip(r.GetTenant(), 64), errcode.Clip(r.GetJobId(), 64)
	r.UpstreamTaskId, r.Reason = errcode.Clip(r.GetUpstreamTaskId(), 1024), errcode.Clip(r.GetReason(), 1024)
}

// attributes returns the log attributes of a record.
func attributes(r *genbusv1.AuditRecord) (attrs []any) {
	for _, a := range []struct{ key, value string }{
		{telemetry.KeyKind, r.GetKind()}, {telemetry.KeyRoute, r.GetRoute()}, {telemetry.KeyTenant, r.GetTenant()},
		{telemetry.KeyJobID, cmp.Or(r.GetNewJobId(), r.GetJobId())},
	} {
		if a.value != "" {
			attrs = append(attrs, a.key, a.value)
		}
	}
	if r.GetLetter() != 0 {
		attrs = append(attrs, telemetry.KeySequence, r.GetLetter())
	}
	if b := r.GetBulk(); b != nil {
		attrs = append(attrs, "total", b.GetTotal(), "changed", b.GetChanged(), "failed", b.GetFailed())
	}
	if r.GetJobs() != 0 {
		attrs = append(attrs, "jobs", r.GetJobs())
	}
	return attrs
}

func ofJob(n subject.JobName) *genbusv1.AuditRecord {
	return &genbusv1.AuditRecord{Kind: string(n.Kind), Tenant: n.Tenant, JobId: n.ID}
}

// ListJobs and the other methods are documented in operator_service.proto.
func (s operatorService) ListJobs(ctx context.Context, m *genbusv1.ListJobsRequest) (*genbusv1.ListJobsResponse, error) {
	return s.operator.Jobs.Search(ctx, m)
}

func (s operatorService) GetJob(ctx context.Context, m *genbusv1.GetJobRequest) (*genbusv1.GetJobResponse, error) {
	n, err := s.operator.Jobs.Find(ctx, m)
	if err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	e, err := s.core.Jobs.Get(ctx, n)
	if err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	out, err := s.operator.Jobs.Describe(ctx, e)
	if err != nil {
		return nil, core.Explain(ctx, n, err)
	}
	pause := s.core.Jobs.Pause(e.Job)
	if out.GetWorkItem().GetReplicaGone() {
		pause = s.core.Jobs.PauseUnheld(e.Job)
	}
	setJobID(ctx, e.Job.GetId())
	setNotice(ctx, core.Notice(pause))
	out.Pause = operator.RoutePause(pause)
	return out, nil
}

func (s operatorService) ListDeadLetters(ctx context.Context, m *genbusv1.ListDeadLettersRequest) (*genbusv1.ListDeadLettersResponse, error) {
	page, err := s.operator.DeadLetters.List(ctx, operator.Query{
		Kind: m.GetKind(), Tenant: m.GetTenant(), Code: m.GetCode(), Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	})
	return &genbusv1.ListDeadLettersResponse{Letters: page.DeadLetters, NextPageToken: page.Next}, err
}

// GetDeadLetter returns a dead letter. If the answer includes the data, which contains a prompt,
// the access is recorded.
func (s operatorService) GetDeadLetter(ctx context.Context, m *genbusv1.GetDeadLetterRequest) (*genbusv1.GetDeadLetterResponse, error) {
	out := &genbusv1.GetDeadLetterResponse{}
	if m.GetWithoutData() {
		var err error
		out.Letter, err = s.operator.DeadLetters.Summary(ctx, m.GetSequence())
		return out, err
	}
	err := s.record(ctx, &genbusv1.AuditRecord{Letter: m.GetSequence()}, func(*genbusv1.AuditRecord) (err error) {
		out.Letter, err = s.operator.DeadLetters.DeadLetter(ctx, m.GetSequence())
		return err
	})
	return out, err
}

func (s operatorService) RedriveDeadLetter(ctx context.Context, m *genbusv1.RedriveDeadLetterRequest) (*genbusv1.RedriveDeadLetterResponse, error) {
	out := &genbusv1.RedriveDeadLetterResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Letter: m.GetSequence()}, func(r *genbusv1.AuditRecord) error {
		e, err := s.operator.DeadLetters.Redrive(ctx, m.GetSequence())
		if err == nil {
			out.Id, out.Status = made(r, e)
		}
		return err
	})
	return out, err
}

func (s operatorService) AttachUpstreamTask(ctx context.Context, m *genbusv1.AttachUpstreamTaskRequest) (*genbusv1.AttachUpstreamTaskResponse, error) {
	out := &genbusv1.AttachUpstreamTaskResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Letter: m.GetSequence(), UpstreamTaskId: m.GetUpstreamTaskId()}, func(r *genbusv1.AuditRecord) error {
		e, err := s.operator.DeadLetters.Attach(ctx, m.GetSequence(), m.GetUpstreamTaskId())
		if err == nil {
			out.Id, out.Status = made(r, e)
			r.UpstreamTaskId = core.VideoOf(e).GetUpstreamTaskId()
		}
		return err
	})
	return out, err
}

func (s operatorService) LookUpUpstreamTask(ctx context.Context, m *genbusv1.LookUpUpstreamTaskRequest) (*genbusv1.LookUpUpstreamTaskResponse, error) {
	out := &genbusv1.LookUpUpstreamTaskResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Letter: m.GetSequence()}, func(r *genbusv1.AuditRecord) (err error) {
		out.LookUp, err = s.operator.DeadLetters.LookUp(ctx, m.GetSequence())
		r.UpstreamTaskId = out.GetLookUp().GetUpstreamTaskId()
		return err
	})
	return out, err
}

// made adds the new job to r and returns the job's ID and status.
func made(r *genbusv1.AuditRecord, e joblog.Entry) (id string, status genbusv1.JobStatus) {
	r.Kind, r.Tenant, r.NewJobId = task.Kind(e.Job), e.Job.GetTenant(), e.Job.GetId()
	return e.Job.GetId(), e.Job.GetStatus()
}

func (s operatorService) DropDeadLetter(ctx context.Context, m *genbusv1.DropDeadLetterRequest) (*genbusv1.DropDeadLetterResponse, error) {
	err := s.record(ctx, &genbusv1.AuditRecord{Letter: m.GetSequence()}, func(*genbusv1.AuditRecord) error {
		return s.operator.DeadLetters.Drop(ctx, m.GetSequence())
	})
	return &genbusv1.DropDeadLetterResponse{}, err
}

func (s operatorService) CancelJob(ctx context.Context, m *genbusv1.CancelJobRequest) (*genbusv1.CancelJobResponse, error) {
	n := subject.JobName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	out := &genbusv1.CancelJobResponse{Id: n.ID}
	err := s.record(ctx, ofJob(n), func(r *genbusv1.AuditRecord) error {
		if err := operator.CheckName(n); err != nil {
			return err
		}
		status, err := s.core.Jobs.CancelForOperator(ctx, n)
		out.Status, r.Status = status, status
		return err
	})
	return out, err
}

func (s operatorService) EraseJob(ctx context.Context, m *genbusv1.EraseJobRequest) (*genbusv1.EraseJobResponse, error) {
	n := subject.JobName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	err := s.record(ctx, ofJob(n), func(*genbusv1.AuditRecord) error { return s.operator.Jobs.Erase(ctx, n) })
	return &genbusv1.EraseJobResponse{}, err
}

func (s operatorService) ListRoutes(ctx context.Context, _ *genbusv1.ListRoutesRequest) (*genbusv1.ListRoutesResponse, error) {
	states, err := s.operator.Routes.RouteStates(ctx)
	return &genbusv1.ListRoutesResponse{Routes: states}, err
}

func (s operatorService) PauseRoute(ctx context.Context, m *genbusv1.PauseRouteRequest) (*genbusv1.PauseRouteResponse, error) {
	out := &genbusv1.PauseRouteResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Kind: m.GetKind(), Route: m.GetName(), Reason: m.GetReason()}, func(r *genbusv1.AuditRecord) (err error) {
		out.Route, err = s.operator.Routes.Pause(ctx, m, r.GetOperator())
		r.Until = out.GetRoute().GetPause().GetUntil()
		return err
	})
	s.operator.Overview.Outdate() // even after an error, because the pause may have taken effect
	return out, err
}

func (s operatorService) ResumeRoute(ctx context.Context, m *genbusv1.ResumeRouteRequest) (*genbusv1.ResumeRouteResponse, error) {
	out := &genbusv1.ResumeRouteResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Kind: m.GetKind(), Route: m.GetName()}, func(*genbusv1.AuditRecord) (err error) {
		out.Route, err = s.operator.Routes.Resume(ctx, m.GetKind(), m.GetName())
		return err
	})
	s.operator.Overview.Outdate()
	return out, err
}

func (s operatorService) ListOrphans(ctx context.Context, _ *genbusv1.ListOrphansRequest) (*genbusv1.ListOrphansResponse, error) {
	routes, err := s.operator.Routes.Orphans(ctx)
	return &genbusv1.ListOrphansResponse{Routes: routes}, err
}

func (s operatorService) FailOrphans(ctx context.Context, m *genbusv1.FailOrphansRequest) (*genbusv1.FailOrphansResponse, error) {
	out := &genbusv1.FailOrphansResponse{}
	err := s.record(ctx, &genbusv1.AuditRecord{Kind: m.GetKind(), Route: m.GetName()}, func(r *genbusv1.AuditRecord) (err error) {
		out.Settled, err = s.operator.Routes.FailOrphans(ctx, m)
		r.Jobs = out.GetSettled().GetEnded()
		return err
	})
	return out, err
}

func (s operatorService) ListTenants(ctx context.Context, m *genbusv1.ListTenantsRequest) (*genbusv1.ListTenantsResponse, error) {
	return s.operator.Tenants.List(ctx, m)
}

func (s operatorService) ListStreams(ctx context.Context, _ *genbusv1.ListStreamsRequest) (*genbusv1.ListStreamsResponse, error) {
	return s.operator.Streams.List(ctx)
}

func (s operatorService) GetOverview(ctx context.Context, _ *genbusv1.GetOverviewRequest) (*genbusv1.GetOverviewResponse, error) {
	return s.operator.Overview.Get(ctx)
}

func (s operatorService) ListAttention(ctx context.Context, _ *genbusv1.ListAttentionRequest) (*genbusv1.ListAttentionResponse, error) {
	return s.operator.Attention.List(ctx)
}

func (s operatorService) ListUpstreams(ctx context.Context, _ *genbusv1.ListUpstreamsRequest) (*genbusv1.ListUpstreamsResponse, error) {
	return s.operator.Replicas.Upstreams(ctx)
}

func (s operatorService) ListReplicas(ctx context.Context, _ *genbusv1.ListReplicasRequest) (*genbusv1.ListReplicasResponse, error) {
	return s.operator.Replicas.List(ctx)
}

func (s operatorService) ListAuditRecords(ctx context.Context, m *genbusv1.ListAuditRecordsRequest) (*genbusv1.ListAuditRecordsResponse, error) {
	page, err := s.operator.Audit.List(ctx, audit.Query{
		Operator: m.GetOperator(), Action: m.GetAction(), JobID: m.GetJobId(), Route: m.GetRoute(), Tenant: m.GetTenant(), DeadLetter: m.GetLetter(), Size: int(m.GetPageSize()), Token: m.GetPageToken(),
	})
	return &genbusv1.ListAuditRecordsResponse{Records: page.Records, NextPageToken: page.Next}, err
}

func (s operatorService) RetryJob(ctx context.Context, m *genbusv1.RetryJobRequest) (*genbusv1.RetryJobResponse, error) {
	n := subject.JobName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	out := &genbusv1.RetryJobResponse{}
	record := ofJob(n)
	record.Edited = len(m.GetRequestJson()) > 0
	err := s.record(ctx, record, func(r *genbusv1.AuditRecord) error {
		e, err := s.jobOf(ctx, n)
		if err != nil {
			return err
		}
		if e, err = s.operator.Requests.Retry(ctx, e, m); err == nil {
			out.Id, out.Status = made(r, e)
		}
		return err
	})
	return out, err
}

// GetJobBodies returns the request and reply of a job. They contain a prompt, so the access is
// recorded.
func (s operatorService) GetJobBodies(ctx context.Context, m *genbusv1.GetJobBodiesRequest) (*genbusv1.GetJobBodiesResponse, error) {
	n := subject.JobName{Kind: subject.Kind(m.GetKind()), Tenant: m.GetTenant(), ID: m.GetId()}
	var out *genbusv1.GetJobBodiesResponse
	err := s.record(ctx, ofJob(n), func(*genbusv1.AuditRecord) error {
		e, err := s.jobOf(ctx, n)
		if err == nil {
			out, err = s.operator.Requests.Read(ctx, e)
		}
		return err
	})
	return out, err
}

func (s operatorService) jobOf(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	if err := operator.CheckName(n); err != nil {
		return joblog.Entry{}, err
	}
	return s.core.Jobs.Get(ctx, n)
}

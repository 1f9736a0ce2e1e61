package grpcapi

import (
	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/telemetry"
)

// CancelJobs and the other methods are documented in operator_service.proto.
func (s operatorService) CancelJobs(m *genbusv1.CancelJobsRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	f := m.GetFilter()
	about := &genbusv1.AuditRecord{Kind: f.GetKind(), Tenant: f.GetTenant(), Route: f.GetRoute()}
	return s.bulk(m, about, func() (operator.Action, error) { return s.operator.Bulk.CancelJobs(m) }, out)
}

func (s operatorService) RedriveDeadLetters(m *genbusv1.RedriveDeadLettersRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	about := &genbusv1.AuditRecord{Kind: m.GetFilter().GetKind(), Tenant: m.GetFilter().GetTenant()}
	return s.bulk(m, about, func() (operator.Action, error) { return s.operator.Bulk.RedriveDeadLetters(m) }, out)
}

func (s operatorService) DropDeadLetters(m *genbusv1.DropDeadLettersRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	about := &genbusv1.AuditRecord{Kind: m.GetFilter().GetKind(), Tenant: m.GetFilter().GetTenant()}
	return s.bulk(m, about, func() (operator.Action, error) { return s.operator.Bulk.DropDeadLetters(m) }, out)
}

func (s operatorService) AttachUpstreamTasks(m *genbusv1.AttachUpstreamTasksRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	about := &genbusv1.AuditRecord{}
	return s.bulk(m, about, func() (operator.Action, error) { return s.operator.Bulk.AttachUpstreamTasks(m) }, out)
}

// bulk runs an action and sends its progress. Unless it is a dry run, it is recorded before its
// first step and at its end. It stops when the process drains, or when the caller disconnects or
// stops reading. If the caller stops reading, the action may continue for a while after its handler
// has returned.
func (s operatorService) bulk(m operator.BulkRequest, record *genbusv1.AuditRecord, check func() (operator.Action, error), out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	ctx, release := s.core.Callers.Work(out.Context())
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		defer release()
		tell := func(p *genbusv1.BulkProgress) error { return sent(func() error { return out.Send(p) }) }
		action, invalid := check()
		if m.GetDryRun() {
			if invalid != nil {
				return invalid
			}
			_, err := action.Run(ctx, s.log, tell)
			return err
		}
		record.Bulk = &genbusv1.BulkAction{Token: errcode.Clip(m.GetToken(), 64), Filter: action.Filter}
		log := s.log.With(telemetry.KeyRequestID, callOf(ctx).id[0], telemetry.KeyOp, callOf(ctx).method.name(), "operator", callOf(ctx).operator)
		return s.record(out.Context(), record, func(r *genbusv1.AuditRecord) error {
			if invalid != nil {
				return invalid
			}
			p, err := action.Run(ctx, log, tell)
			if errcode.CodeOf(err) == errcode.ShuttingDown {
				err = errcode.New(errcode.ShuttingDown, "this replica is shutting down; call again with the same token to continue")
			}
			r.Bulk.Total, r.Bulk.Done, r.Bulk.Changed, r.Bulk.Failed = p.GetTotal(), p.GetDone(), p.GetChanged(), p.GetFailed()
			return err
		})
	})
}

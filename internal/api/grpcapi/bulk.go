package grpcapi

import (
	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/operator"
)

// maxRecordedFilter is how much of a filter an audit record has, in bytes.
const maxRecordedFilter = 4096

// CancelJobs is in operator_service.proto, as are the others.
func (s operatorService) CancelJobs(m *genbusv1.CancelJobsRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	action, err := s.operator.Bulk.CancelJobs(m)
	return s.bulk(action, err, m.GetToken(), out)
}

// RedriveDeadLetters makes new jobs.
func (s operatorService) RedriveDeadLetters(m *genbusv1.RedriveDeadLettersRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	action, err := s.operator.Bulk.RedriveDeadLetters(m)
	return s.bulk(action, err, m.GetToken(), out)
}

// DropDeadLetters removes letters.
func (s operatorService) DropDeadLetters(m *genbusv1.DropDeadLettersRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	action, err := s.operator.Bulk.DropDeadLetters(m)
	return s.bulk(action, err, m.GetToken(), out)
}

// AttachUpstreamTasks makes new jobs of upstreams' tasks.
func (s operatorService) AttachUpstreamTasks(m *genbusv1.AttachUpstreamTasksRequest, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	action, err := s.operator.Bulk.AttachUpstreamTasks(m)
	return s.bulk(action, err, m.GetToken(), out)
}

// bulk runs an action and sends its progress. A run is recorded before its first step and at its
// end, whoever ended it; a dry run is not. A drain of the process stops it, as does a caller who
// goes away or does not read.
func (s operatorService) bulk(action operator.Action, invalid error, token string, out grpc.ServerStreamingServer[genbusv1.BulkProgress]) error {
	if invalid != nil {
		return invalid
	}
	ctx, leave := s.core.Callers.Watch(out.Context())
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		defer leave() // the run outlives the handler where the caller does not read
		tell := func(p *genbusv1.BulkProgress) error { return sent(func() error { return out.Send(p) }) }
		if action.DryRun() {
			_, err := action.Run(ctx, s.log, tell)
			return err
		}
		record := &genbusv1.AuditRecord{Bulk: &genbusv1.BulkAction{Token: errcode.Clip(token, 64), Filter: errcode.Clip(action.Filter, maxRecordedFilter)}}
		return s.record(ctx, record, func(r *genbusv1.AuditRecord) error {
			p, err := action.Run(ctx, s.log, tell)
			r.Bulk.Total, r.Bulk.Done, r.Bulk.Changed, r.Bulk.Failed = p.GetTotal(), p.GetDone(), p.GetChanged(), p.GetFailed()
			return err
		})
	})
}

package grpcapi

import (
	"context"

	"github.com/nats-io/nuid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/bulk"
)

// StartOperation begins work on many jobs or letters, or counts them.
func (s operatorService) StartOperation(ctx context.Context, m *genbusv1.StartOperationRequest) (*genbusv1.StartOperationResponse, error) {
	out := &genbusv1.StartOperationResponse{}
	if m.GetCountOnly() {
		var err error
		out.Operation, err = s.operator.Operations.Plan(ctx, m)
		return out, err
	}
	if m.GetId() == "" {
		m.Id = nuid.Next()
	}
	err := s.record(ctx, &genbusv1.AuditRecord{OperationId: m.GetId(), OperationWork: bulk.WorkOf(m.GetSpec())}, func(r *genbusv1.AuditRecord) error {
		op, err := s.operator.Operations.Plan(ctx, m)
		if err != nil {
			return err
		}
		op.Operator = r.GetOperator()
		if out.Operation, err = s.operator.Bulk.Begin(ctx, op); out.GetOperation() == op { // else it was there already
			r.Jobs = uint64(op.GetTotal())
		}
		return err
	})
	return out, err
}

// GetOperation reads an operation.
func (s operatorService) GetOperation(ctx context.Context, m *genbusv1.GetOperationRequest) (*genbusv1.GetOperationResponse, error) {
	op, err := s.operator.Bulk.Get(ctx, m.GetId())
	return &genbusv1.GetOperationResponse{Operation: op}, err
}

// ListOperations reads a page of operations.
func (s operatorService) ListOperations(ctx context.Context, m *genbusv1.ListOperationsRequest) (*genbusv1.ListOperationsResponse, error) {
	ops, next, err := s.operator.Bulk.List(ctx, int(m.GetPageSize()), m.GetPageToken())
	return &genbusv1.ListOperationsResponse{Operations: ops, NextPageToken: next}, err
}

// StopOperation stops an operation, also where there is no room for a record: it may be what
// fills the stream.
func (s operatorService) StopOperation(ctx context.Context, m *genbusv1.StopOperationRequest) (*genbusv1.StopOperationResponse, error) {
	out := &genbusv1.StopOperationResponse{}
	err := s.recordBy(ctx, s.operator.Audit.RecordIfRoom, &genbusv1.AuditRecord{OperationId: m.GetId()}, func(r *genbusv1.AuditRecord) (err error) {
		out.Operation, err = s.operator.Bulk.Stop(ctx, m.GetId())
		r.Jobs, r.OperationWork = uint64(out.GetOperation().GetTotal()), bulk.WorkOf(out.GetOperation().GetSpec())
		return err
	})
	return out, err
}

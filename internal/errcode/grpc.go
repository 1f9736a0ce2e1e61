package errcode

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Domain is the domain in google.rpc.ErrorInfo.
const Domain = "genbus"

// GRPCStatus returns the error as a gRPC status with ErrorInfo and, if they apply, BadRequest and
// RetryInfo. grpc-go calls it for every error that a handler returns.
func (e *Error) GRPCStatus() *status.Status {
	s := status.New(e.Meaning().GRPC, Clip(e.Message, maxMessage))
	with, err := s.WithDetails(e.details()...)
	if err != nil {
		return s // only for status OK, which the table does not have
	}
	return with
}

func (e *Error) details() []protoadapt.MessageV1 {
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: Domain, Metadata: map[string]string{}}
	if e.JobID != "" {
		info.Metadata["job_id"] = e.JobID
	}
	if e.UpstreamCode != "" {
		info.Metadata["upstream_code"] = e.UpstreamCode
	}
	out := []protoadapt.MessageV1{info}
	if len(e.Violations) > 0 {
		out = append(out, e.badRequest())
	}
	if e.RetryAfter > 0 {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return out
}

func (e *Error) badRequest() *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.Field, Description: v.Description,
		})
	}
	return b
}

// Package grpcstatus converts between the errors of genbus and gRPC statuses.
package grpcstatus

import (
	"errors"
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/genbus/genbus/internal/errcode"
)

// Domain is the domain in google.rpc.ErrorInfo.
const Domain = "genbus"

// Of returns the error as a gRPC status with ErrorInfo and, if they apply, BadRequest and RetryInfo.
func Of(e *errcode.Error) *status.Status {
	s := status.New(codes.Code(e.Meaning().GRPC), errcode.Clip(e.Message, errcode.MaxMessage))
	with, err := s.WithDetails(details(e)...)
	if err != nil {
		return s // only for status OK, which the table does not have
	}
	return with
}

func details(e *errcode.Error) []protoadapt.MessageV1 {
	info := &errdetails.ErrorInfo{Reason: string(e.Code), Domain: Domain, Metadata: map[string]string{}}
	if e.JobID != "" {
		info.Metadata["job_id"] = e.JobID
	}
	if e.UpstreamCode != "" {
		info.Metadata["upstream_code"] = e.UpstreamCode
	}
	out := []protoadapt.MessageV1{info}
	if len(e.Violations) > 0 {
		out = append(out, badRequest(e))
	}
	if e.RetryAfter > 0 {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	return out
}

func badRequest(e *errcode.Error) *errdetails.BadRequest {
	b := &errdetails.BadRequest{}
	for _, v := range e.Violations {
		b.FieldViolations = append(b.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.Field, Description: v.Description,
		})
	}
	return b
}

// Error returns the error of a call as an *errcode.Error: unchanged if it is one, otherwise from its
// status. A status without genbus details comes from gRPC itself, or from the gateway in this
// process.
func Error(err error) *errcode.Error {
	if f, ok := errors.AsType[*errcode.Error](err); ok {
		return f
	}
	s := status.Convert(err)
	f := &errcode.Error{Code: codeOf(s.Code()), Message: s.Message(), Err: err}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				f.Code, f.JobID = errcode.Code(d.GetReason()), d.GetMetadata()["job_id"]
				f.UpstreamCode = d.GetMetadata()["upstream_code"]
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				f.Violations = append(f.Violations, errcode.Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			f.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return f
}

// Ours reports whether a genbus service set the status of err. Otherwise its text is that of gRPC or
// of another library.
func Ours(err error) bool {
	return slices.ContainsFunc(status.Convert(err).Details(), func(detail any) bool {
		info, ok := detail.(*errdetails.ErrorInfo)
		return ok && info.GetDomain() == Domain
	})
}

// codeOf returns the Code for a gRPC code that no genbus service set.
func codeOf(c codes.Code) errcode.Code {
	switch c {
	case codes.InvalidArgument:
		return errcode.InvalidRequest
	case codes.ResourceExhausted:
		return errcode.BodyTooLarge // gRPC itself has no other limit here
	case codes.Canceled, codes.DeadlineExceeded:
		return errcode.CallerGone
	case codes.Unavailable:
		return errcode.ShuttingDown // the in-process server has stopped
	case codes.Unimplemented, codes.NotFound:
		return errcode.NotFound
	case codes.Unauthenticated:
		return errcode.InvalidAPIKey
	default:
		return errcode.Internal
	}
}

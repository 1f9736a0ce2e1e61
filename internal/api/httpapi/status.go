package httpapi

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/fault"
)

// fromStatus reads an error back from its gRPC form. One without our details
// comes from gRPC or the gateway itself.
func fromStatus(err error) *fault.Error {
	s := status.Convert(err)
	f := &fault.Error{Code: codeOf(s.Code()), Message: s.Message(), Err: err}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == fault.Domain {
				f.Code, f.JobID = fault.Code(d.GetReason()), d.GetMetadata()["job_id"]
				f.UpstreamCode = d.GetMetadata()["upstream_code"]
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				f.Violations = append(f.Violations, fault.Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			f.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return f
}

// codeOf gives the meaning of a code that did not come from a service of ours.
func codeOf(c codes.Code) fault.Code {
	switch c {
	case codes.InvalidArgument:
		return fault.InvalidRequest
	case codes.ResourceExhausted:
		return fault.BodyTooLarge // the only limit that gRPC itself has here
	case codes.Canceled, codes.DeadlineExceeded:
		return fault.CallerGone
	case codes.Unavailable:
		return fault.ShuttingDown // the in-process server has stopped
	case codes.Unimplemented, codes.NotFound:
		return fault.NotFound
	case codes.Unauthenticated:
		return fault.InvalidAPIKey
	default:
		return fault.Internal
	}
}

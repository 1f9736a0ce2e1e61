package errcode

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FromStatus reads an error back from its gRPC form. One without our details
// comes from gRPC, or from the gateway, of this process.
func FromStatus(err error) *Error {
	s := status.Convert(err)
	f := &Error{Code: codeOf(s.Code()), Message: s.Message(), Err: err}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				f.Code, f.JobID = Code(d.GetReason()), d.GetMetadata()["job_id"]
				f.UpstreamCode = d.GetMetadata()["upstream_code"]
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				f.Violations = append(f.Violations, Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			f.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return f
}

// codeOf gives the meaning of a code that did not come from a service of ours.
func codeOf(c codes.Code) Code {
	switch c {
	case codes.InvalidArgument:
		return InvalidRequest
	case codes.ResourceExhausted:
		return BodyTooLarge // the only limit that gRPC itself has here
	case codes.Canceled, codes.DeadlineExceeded:
		return CallerGone
	case codes.Unavailable:
		return ShuttingDown // the in-process server has stopped
	case codes.Unimplemented, codes.NotFound:
		return NotFound
	case codes.Unauthenticated:
		return InvalidAPIKey
	default:
		return Internal
	}
}

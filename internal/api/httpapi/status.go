package httpapi

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/errcode"
)

// fromStatus reads an error back from its gRPC form. One without our details
// comes from gRPC or the gateway itself.
func fromStatus(err error) *errcode.Error {
	s := status.Convert(err)
	f := &errcode.Error{Code: codeOf(s.Code()), Message: s.Message(), Err: err}
	for _, detail := range s.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == errcode.Domain {
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

// codeOf gives the meaning of a code that did not come from a service of ours.
func codeOf(c codes.Code) errcode.Code {
	switch c {
	case codes.InvalidArgument:
		return errcode.InvalidRequest
	case codes.ResourceExhausted:
		return errcode.BodyTooLarge // the only limit that gRPC itself has here
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

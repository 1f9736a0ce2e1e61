package errcode

import (
	"slices"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FromStatus converts a gRPC error to an *Error. An error without genbus details comes from gRPC
// itself, or from the gateway in this process.
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

// Ours reports whether a genbus service set the status of err. Otherwise its text is that of gRPC or
// of another library.
func Ours(err error) bool {
	return slices.ContainsFunc(status.Convert(err).Details(), func(detail any) bool {
		info, ok := detail.(*errdetails.ErrorInfo)
		return ok && info.GetDomain() == Domain
	})
}

// codeOf returns the Code for a gRPC code that no genbus service set.
func codeOf(c codes.Code) Code {
	switch c {
	case codes.InvalidArgument:
		return InvalidRequest
	case codes.ResourceExhausted:
		return BodyTooLarge // gRPC itself has no other limit here
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

package grpcstatus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
)

func invalid() *errcode.Error {
	e := errcode.Invalid([]errcode.Violation{{Field: "prompt", Description: "is required"}, {Field: "n", Description: "must be positive"}})
	return e.ForJob("video_1").WithRetryAfter(2 * time.Second)
}

func TestStatusesCarryDetails(t *testing.T) {
	t.Parallel()
	s := grpcstatus.Of(invalid())
	if s.Code() != codes.InvalidArgument {
		t.Errorf("code %s", s.Code())
	}
	want := []any{
		&errdetails.ErrorInfo{Reason: "invalid_request", Domain: "genbus", Metadata: map[string]string{"job_id": "video_1"}},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: "prompt", Description: "is required"}, {Field: "n", Description: "must be positive"},
		}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)},
	}
	if diff := cmp.Diff(want, s.Details(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestErrorsSurviveGRPC checks that every code of the table has a gRPC code, and that a caller gets
// the error that genbus returned.
func TestErrorsSurviveGRPC(t *testing.T) {
	t.Parallel()
	for _, m := range errcode.Table() {
		sent := errcode.New(m.Code, "no")
		s := grpcstatus.Of(sent)
		if name := s.Code().String(); s.Code() == codes.OK || len(s.Details()) != 1 || name[:4] == "Code" {
			t.Errorf("%s is sent as %s with %v", m.Code, name, s.Details())
		}
		if got := grpcstatus.Error(s.Err()); !errors.Is(got, sent) || got.Message != "no" || !grpcstatus.Ours(s.Err()) {
			t.Errorf("%s arrives as %v", m.Code, got)
		}
	}
	sent := invalid()
	if diff := cmp.Diff(sent, grpcstatus.Error(grpcstatus.Of(sent).Err()), cmpopts.IgnoreUnexported(errcode.Error{}), cmpopts.IgnoreFields(errcode.Error{}, "Err", "Message")); diff != "" {
		t.Error(diff)
	}
}

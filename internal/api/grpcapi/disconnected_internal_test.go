package grpcapi

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

func TestCodesOfDisconnectedCallers(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	late, end := context.WithDeadline(t.Context(), time.Now())
	defer end()
	for _, row := range []struct {
		ctx        context.Context
		code, want codes.Code
	}{
		{t.Context(), codes.Unknown, codes.Unknown},
		{gone, codes.Unknown, codes.Canceled},
		{gone, codes.Unavailable, codes.Canceled},
		{late, codes.Internal, codes.DeadlineExceeded},
		{gone, codes.NotFound, codes.NotFound},
	} {
		if got := counted(row.ctx, row.code); got != row.want {
			t.Errorf("%v after %v counts as %v, want %v", row.code, row.ctx.Err(), got, row.want)
		}
	}
}

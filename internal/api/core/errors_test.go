package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestMeaningOfACallersDeadline checks that an operation cut off by the caller's deadline does not
// count as a broker failure, unlike an error that the broker returned or a lost connection.
func TestMeaningOfACallersDeadline(t *testing.T) {
	t.Parallel()
	n := subject.JobName{Kind: subject.Chat, ID: "chat_x"}
	cut := fmt.Errorf("read: %w", errors.Join(broker.ErrUnavailable, context.DeadlineExceeded))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	own, end := context.WithTimeoutCause(t.Context(), 0, errcode.New(errcode.AcceptanceUnknown, "no answer"))
	defer end()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // the test varies it
		err  error
		want errcode.Code
	}{
		"cut off":             {late, cut, errcode.CallerDeadline},
		"by a limit of ours":  {own, cut, errcode.AcceptanceUnknown},
		"by the read's limit": {t.Context(), cut, errcode.BrokerUnavailable},
		"not connected":       {late, broker.ErrUnavailable, errcode.BrokerUnavailable},
		"connection lost":     {late, errors.Join(cut, nats.ErrDisconnected), errcode.BrokerUnavailable},
		"no leader":           {late, errors.Join(cut, &jetstream.APIError{Code: 503, ErrorCode: 10008}), errcode.BrokerUnavailable},
		"a body lost":         {late, errors.Join(cut, broker.ErrBodyLost), errcode.InputLost},
		"a change, perhaps":   {late, errors.Join(cut, joblog.ErrUncertain), errcode.AcceptanceUnknown},
	} {
		if f := core.Explain(c.ctx, n, c.err); f.Code != c.want || f.JobID != n.ID {
			t.Errorf("%s: %v, want %s", name, f, c.want)
		}
	}
}

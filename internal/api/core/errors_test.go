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
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// TestMeaningOfACallersDeadline: what it cut off is no trouble of the broker. What the
// broker had said by then is, and so is a connection that was lost.
func TestMeaningOfACallersDeadline(t *testing.T) {
	t.Parallel()
	n := subject.TaskName{Kind: subject.Chat, ID: "chat_x"}
	cut := fmt.Errorf("read: %w", errors.Join(broker.ErrUnavailable, context.DeadlineExceeded))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	own, end := context.WithTimeoutCause(t.Context(), 0, fault.New(fault.AcceptanceUnknown, "no answer"))
	defer end()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // what is tested
		err  error
		want fault.Code
	}{
		"cut off":             {late, cut, fault.CallerDeadline},
		"by a limit of ours":  {own, cut, fault.AcceptanceUnknown},
		"by the read's limit": {t.Context(), cut, fault.BrokerUnavailable},
		"not connected":       {late, broker.ErrUnavailable, fault.BrokerUnavailable},
		"connection lost":     {late, errors.Join(cut, nats.ErrDisconnected), fault.BrokerUnavailable},
		"no leader":           {late, errors.Join(cut, &jetstream.APIError{Code: 503, ErrorCode: 10008}), fault.BrokerUnavailable},
		"a body lost":         {late, errors.Join(cut, broker.ErrBodyLost), fault.InputLost},
		"a change, perhaps":   {late, errors.Join(cut, tasklog.ErrUncertain), fault.AcceptanceUnknown},
	} {
		if f := core.Explain(c.ctx, n, c.err); f.Code != c.want || f.JobID != n.ID {
			t.Errorf("%s: %v, want %s", name, f, c.want)
		}
	}
}

package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

func TestUnavailableIsNoBug(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		broker.ErrUnavailable, broker.ErrNoAnswer, nats.ErrTimeout, nats.ErrNoResponders, context.DeadlineExceeded,
		nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		fmt.Errorf("read: %w", &jetstream.APIError{Code: 503, ErrorCode: 10008}),
	} {
		if !broker.Unavailable(err) {
			t.Errorf("%v is called a bug", err)
		}
	}
	for _, err := range []error{nil, broker.ErrNoMessage, context.Canceled, &jetstream.APIError{Code: 400, ErrorCode: 10003}} {
		if broker.Unavailable(err) {
			t.Errorf("%v is called trouble of the broker", err)
		}
	}
}

// TestReason proves that callers get one line without stream names and repetitions.
func TestReason(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: %w", broker.ErrUnavailable, errors.Join(broker.ErrUnavailable, errors.New("stream GENBUS_WAIT"), context.DeadlineExceeded)), "JetStream is unavailable: no answer in time"},
		{fmt.Errorf("publish to genbus.work: %w", errors.Join(broker.ErrNoAnswer, nats.ErrTimeout)), "JetStream is unavailable: no answer in time"},
		{broker.Classify(nats.ErrConnectionClosed), "JetStream is unavailable: not connected to NATS"},
		{broker.Classify(nats.ErrNoResponders), "JetStream is unavailable"},
		{broker.Classify(nats.ErrMaxPayload), "the message is too large for JetStream"},
		{broker.Classify(&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}), "JetStream is full"},
	} {
		if got := broker.Reason(row.err); got != row.want {
			t.Errorf("%v\nis told as %q, want %q", row.err, got, row.want)
		}
	}
}

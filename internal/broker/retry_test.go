package broker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// A start waits for the cluster's next leader, and for nothing else.
func TestPatienceIsForElectionsOnly(t *testing.T) {
	brokertest.Long(t)
	t.Parallel()
	b := brokertest.Single(t)
	tries := 0
	passing := []error{&jetstream.APIError{Code: 503, ErrorCode: 10008}, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, context.DeadlineExceeded}
	err := b.RetryUntilLeader(t.Context(), "test", func(context.Context) error {
		if tries++; tries <= len(passing) {
			return passing[tries-1]
		}
		return nil
	})
	if err != nil || tries != len(passing)+1 {
		t.Errorf("%v after %d tries", err, tries)
	}

	refusal := &jetstream.APIError{Code: 500, ErrorCode: 10074, Description: "replicas > 1 not supported in non-clustered mode"}
	tries = 0
	err = b.RetryUntilLeader(t.Context(), "test", func(context.Context) error { tries++; return refusal })
	if !errors.Is(err, refusal) || tries != 1 {
		t.Errorf("%v after %d tries, want the refusal at once", err, tries)
	}

	ctx, stop := context.WithCancel(t.Context())
	stop()
	err = b.RetryUntilLeader(ctx, "test", func(context.Context) error { return nats.ErrTimeout })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("%v, want why it ended and what was tried last", err)
	}
}

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

// A replica may start while the stream's leader has just gone.
func TestStreamsAreEnsuredAcrossTheLossOfANode(t *testing.T) {
	t.Parallel()
	cluster := brokertest.NewCluster(t)
	first := cluster.Open(t)
	second := cluster.Open(t) // connected, wherever to
	var gone atomic.Bool
	for _, server := range cluster.Servers {
		if server.JetStreamIsStreamLeader("$G", first.Names().Tasks()) && !gone.Swap(true) {
			server.Shutdown()
			server.WaitForShutdown()
		}
	}
	for _, b := range []*broker.Broker{first, second} {
		if err := b.EnsureStreams(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !gone.Load() {
		t.Error("no server led the stream")
	}
}

// What callers are told of the broker is one line, says nothing twice, and names no
// stream.
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
		{broker.Classify(&jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}), "JetStream has no room"},
	} {
		if got := broker.Reason(row.err); got != row.want {
			t.Errorf("%v\nis told as %q, want %q", row.err, got, row.want)
		}
	}
}

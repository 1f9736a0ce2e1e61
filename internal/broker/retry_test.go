package broker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestPatienceIsForElectionsOnly proves that RetryUntilLeader retries during an election and
// returns other errors at once.
func TestPatienceIsForElectionsOnly(t *testing.T) {
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

// TestStreamsAreEnsuredAcrossTheLossOfANode proves that a replica can start right after a stream
// lost its leader.
func TestStreamsAreEnsuredAcrossTheLossOfANode(t *testing.T) {
	t.Parallel()
	cluster := brokertest.NewCluster(t)
	first := cluster.Open(t)
	second := cluster.Open(t) // to any server
	var gone atomic.Bool
	for _, server := range cluster.Servers {
		if server.JetStreamIsStreamLeader("$G", first.Names().Tasks()) && !gone.Swap(true) {
			server.Shutdown()
			server.WaitForShutdown()
		}
	}
	for _, b := range []*broker.Broker{first, second} {
		if err := b.Streams().Ensure(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !gone.Load() {
		t.Error("no server led the stream")
	}
}

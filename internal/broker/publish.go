package broker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PublishTimeout is how long one publish waits for its answer.
const PublishTimeout = 5 * time.Second

// A publish that no stream listened to is sent again for a second. On three nodes that is
// so while a stream elects its leader, and just after it was created: the server that we are
// connected to may learn of the stream later than of the answer to the request that created it.
const (
	leaderlessTries = 20
	leaderlessWait  = 50 * time.Millisecond
)

// Ack is the server's confirmation.
type Ack struct {
	Seq uint64
	// Duplicate is true when the server dropped the message because it knew its
	// Nats-Msg-Id. It is no proof that the stored message is ours.
	Duplicate bool
}

// Publish stores m in the stream that listens to its subject, and waits for the
// answer. A lost answer is not retried here: the caller decides, with the same
// message. That no stream listened is retried for a second: nothing was stored.
func (c *connection) Publish(ctx context.Context, m *nats.Msg) (Ack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PublishTimeout, fmt.Errorf("publish to %s: %w within %s", m.Subject, ErrNoAnswer, PublishTimeout))
	defer cancel()
	ack, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(leaderlessTries), jetstream.WithRetryWait(leaderlessWait))
	if err != nil {
		return Ack{}, fmt.Errorf("publish to %s: %w", m.Subject, Classify(err))
	}
	return Ack{Seq: ack.Sequence, Duplicate: ack.Duplicate}, nil
}

// PublishExpecting is Publish with a compare-and-set: m is stored only if the
// last sequence on its (literal) subject is last; 0 means that there is none.
func (c *connection) PublishExpecting(ctx context.Context, m *nats.Msg, last uint64) (Ack, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return c.Publish(ctx, m)
}

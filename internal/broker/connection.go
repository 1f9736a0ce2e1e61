package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/subject"
)

// connection is one connection to JetStream, with the publishes, reads and lookups that go
// over it. It knows the streams' names, and not how they are configured.
type connection struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	names    subject.Space
	log      *slog.Logger
	closed   chan struct{}
	state    *connState
	clock    *clock.Clock
	writers  *writers
	circuits *circuits
	trouble  atomic.Pointer[trouble] // nil when the last look of Ready found all well

	unreplicated unreplicated
	faults       storeFaults
	payload      atomic.Int64 // smallest max_payload seen; 0: none yet
}

// A server that was cut off without a word, as by a network that drops packets, is
// left for another one when pingsOut pings in a row have no answer: 10 to 15 s after
// the last one. The client's own defaults need six minutes, of which every answer
// would be 503.
const (
	pingEvery = 5 * time.Second
	pingsOut  = 2
)

// answersOfOne is how many messages may wait on the inbox of one request: what a direct get
// answers with at most (pageMessages, MostSubjects), and more replicas than a fleet has. Each
// such request makes room for all of them, 8 bytes each: the client's default, 65,536, is half
// a megabyte for a read of one event.
const answersOfOne = 2048

func (c *connection) options() []nats.Option {
	return []nats.Option{
		nats.Name("genbus"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		// No buffer while disconnected: a publish sent late, after its caller has
		// given up, would be a write that no caller wants any more. While the embedded
		// server reads nothing, there is one for all that (unhurried).
		nats.ReconnectBufSize(-1),
		nats.SyncQueueLen(answersOfOne),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { c.disconnected(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { c.asyncError(s, err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	}
}

// disconnected is called for our own Close too, then without an error.
func (c *connection) disconnected(err error) {
	c.state.lost()
	c.writers.replies.Lost()
	if err != nil {
		c.log.Warn("nats: disconnected", "error", err)
	}
}

func (c *connection) asyncError(s *nats.Subscription, err error) {
	if s == nil {
		c.log.Warn("nats: asynchronous error", "error", err)
		return
	}
	c.log.Warn("nats: asynchronous error", "error", err, "subject", s.Subject)
}

// connectTimeout bounds the first connection.
const connectTimeout = 10 * time.Second

func (c *connection) connect(ctx context.Context, url string, opts []nats.Option) error {
	opts = append(opts, nats.Timeout(connectTimeout))
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS at %q: %w", url, err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096), jetstream.WithPublishAsyncTimeout(10*time.Second))
	if err != nil {
		nc.Close()
		return fmt.Errorf("use JetStream: %w", err)
	}
	c.nc, c.js = nc, guardedJetStream{js, c.circuits}
	if err := c.writers.replies.Subscribe(nc); err != nil {
		nc.Close()
		return err
	}
	if err := ctx.Err(); err != nil {
		nc.Close()
		return context.Cause(ctx)
	}
	return nil
}

// Conn is the NATS connection.
func (c *connection) Conn() *nats.Conn { return c.nc }

// JetStream is the JetStream context of the connection.
func (c *connection) JetStream() jetstream.JetStream { return c.js }

// Names are the stream and subject names.
func (c *connection) Names() subject.Space { return c.names }

// Clock is this replica's clock. Streams.Ensure, Ready and each reconnect compare it with that of the
// server that leads the task log.
func (c *connection) Clock() *clock.Clock { return c.clock }

// MaxPayload returns the smallest max_payload (server, account or user limit) seen since the process
// started, in bytes.
func (c *connection) MaxPayload() int64 {
	now := c.nc.MaxPayload()
	for {
		seen := c.payload.Load()
		if seen != 0 && seen <= now {
			return seen
		}
		if c.payload.CompareAndSwap(seen, now) {
			return now
		}
	}
}

// minPayload is enough for every event without a body and for a video result.
const minPayload = 64 << 10

// checkPayload fails if max_payload is below minPayload.
func (c *connection) checkPayload() error {
	if most := c.MaxPayload(); most < minPayload {
		return fmt.Errorf("NATS max_payload is %d bytes (server, account or user limit); genbus needs at least %d", most, minPayload)
	}
	return nil
}

// ask sends a request about a stream that is harmless to repeat, and repeats it where its
// connection was lost under way. Without a connection it fails at once.
func (c *connection) ask(ctx context.Context, stream, subject string, body []byte) (*nats.Msg, error) {
	for {
		down, _ := c.state.now()
		if down.Err() != nil {
			return c.nc.RequestWithContext(ctx, subject, body) // which the client refuses to send
		}
		m, err := c.askOver(ctx, down, stream, subject, body)
		if err == nil || down.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrReconnectBufExceeded) {
			return m, err
		}
		_, up := c.state.now()
		select {
		case <-up:
		case <-c.closed:
			return nil, nats.ErrConnectionClosed
		case <-ctx.Done():
			return nil, errors.Join(nats.ErrDisconnected, context.Cause(ctx))
		}
	}
}

// askOver asks over one connection, and gives up when it is lost.
func (c *connection) askOver(ctx, down context.Context, stream, subject string, body []byte) (*nats.Msg, error) {
	try, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(down, cancel)()
	return c.request(try, stream, subject, body)
}

// request sends a request about a stream once, unless the stream cannot answer it.
func (c *connection) request(ctx context.Context, stream, subject string, body []byte) (m *nats.Msg, err error) {
	err = c.circuits.ask(ctx, stream, func() (err error) {
		m, err = c.nc.RequestWithContext(ctx, subject, body)
		return err
	})
	return m, err
}

// IsInbox reports whether a subject is the inbox of a replica's question. An answer goes to no
// other one: a client that may ask could have it go to any subject that the service may publish
// to.
func IsInbox(reply string) bool { return strings.HasPrefix(reply, nats.InboxPrefix) }

// Package broker connects genbus to JetStream, embedded or remote, keeps its
// streams as the design states them, and offers the few publishes and reads
// whose guarantees everything else rests on. It knows nothing of jobs.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/subject"
)

// Options says where the broker is and how its streams are kept.
type Options struct {
	// Names are the stream and subject names. Required.
	Names subject.Space
	// URL of a NATS cluster; empty: an embedded server.
	URL string
	// Connect are further options of the connection, such as credentials.
	Connect []nats.Option
	// Embedded configures the embedded server; unused with a URL.
	Embedded Embedded
	// Replicas of every stream. Default: 1.
	Replicas int
	// Limits of the streams. Zero fields: the defaults of DefaultLimits.
	Limits Limits
	// Logger is required.
	Logger *slog.Logger
	// ConnectTimeout bounds the first connection. Default: 10s.
	ConnectTimeout time.Duration
	// Wall is the time of day, as the machine has it. Default: time.Now.
	Wall func() time.Time
}

// Broker is one connection to JetStream. It is safe for concurrent use.
type Broker struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	names    subject.Space
	limits   Limits
	replicas int
	log      *slog.Logger
	embedded *embedded // nil with a remote cluster
	closed   chan struct{}
	conn     *connState
	clock    *clock.Clock
	trouble  atomic.Pointer[error] // of the last look of Ready; nil when all was well

	mu          sync.Mutex
	onReconnect []func(context.Context)
	repairing   context.CancelFunc
	closing     bool              // nothing is repaired any more
	logged      map[string]string // how streams differ, as was logged, by name
	seen        map[string]bool   // streams that this process has found or created
	lost        map[string]int    // streams that were lost and created again
	creating    chan struct{}     // has the one who creates a missing stream
	repairs     sync.WaitGroup
}

// Open connects, starting the embedded server where there is no URL. It does not
// touch the streams; EnsureStreams does.
func Open(ctx context.Context, o Options) (*Broker, error) {
	b := &Broker{names: o.Names, limits: o.Limits.withDefaults(), replicas: max(o.Replicas, 1), log: o.Logger, closed: make(chan struct{}), conn: newConnState(), logged: map[string]string{}, seen: map[string]bool{}, lost: map[string]int{}, creating: make(chan struct{}, 1), clock: clock.New(o.Wall)}
	url := o.URL
	opts := append(b.connectionOptions(), o.Connect...)
	if url == "" {
		e, err := startEmbedded(o.Embedded, o.Logger)
		if err != nil {
			return nil, err
		}
		b.embedded = e
		opts = append(opts, e.inProcess()...)
	}
	if err := b.connect(ctx, url, opts, o.ConnectTimeout); err != nil {
		return nil, errors.Join(err, b.stopEmbedded())
	}
	return b, nil
}

// A server that was cut off without a word, as by a network that drops packets, is
// left for another one when pingsOut pings in a row have no answer: 10 to 15 s after
// the last one. The client's own defaults need six minutes, of which every answer
// would be 503.
const (
	pingEvery = 5 * time.Second
	pingsOut  = 2
)

func (b *Broker) connectionOptions() []nats.Option {
	return []nats.Option{
		nats.Name("genbus"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		// No buffer while disconnected: a publish sent late, after its caller has
		// given up, would be a write that no caller wants any more.
		nats.ReconnectBufSize(-1),
		nats.ReconnectHandler(func(*nats.Conn) { b.reconnected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.disconnected(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { b.asyncError(s, err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(b.closed) }),
	}
}

// disconnected is called for our own Close too, then without an error.
func (b *Broker) disconnected(err error) {
	b.conn.lost()
	if err != nil {
		b.log.Warn("nats: disconnected", "error", err)
	}
}

func (b *Broker) asyncError(s *nats.Subscription, err error) {
	if s == nil {
		b.log.Warn("nats: asynchronous error", "error", err)
		return
	}
	b.log.Warn("nats: asynchronous error", "error", err, "subject", s.Subject)
}

func (b *Broker) connect(ctx context.Context, url string, opts []nats.Option, timeout time.Duration) error {
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	opts = append(opts, nats.Timeout(timeout))
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS at %q: %w", url, err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096), jetstream.WithPublishAsyncTimeout(10*time.Second))
	if err != nil {
		nc.Close()
		return fmt.Errorf("use JetStream: %w", err)
	}
	b.nc, b.js = nc, js
	if err := ctx.Err(); err != nil {
		nc.Close()
		return context.Cause(ctx)
	}
	return nil
}

// Conn is the NATS connection.
func (b *Broker) Conn() *nats.Conn { return b.nc }

// JetStream is the JetStream context of the connection.
func (b *Broker) JetStream() jetstream.JetStream { return b.js }

// Names are the stream and subject names.
func (b *Broker) Names() subject.Space { return b.names }

// Clock is this replica's clock. EnsureStreams, Ready and each reconnect compare it with that of the
// server that leads the task log.
func (b *Broker) Clock() *clock.Clock { return b.clock }

// MaxPayload is the largest message that the server takes, in bytes.
func (b *Broker) MaxPayload() int64 { return b.nc.MaxPayload() }

// ClientURL is the address of the embedded server for other processes, or empty.
func (b *Broker) ClientURL() string {
	if b.embedded == nil || b.embedded.server.Addr() == nil {
		return ""
	}
	return b.embedded.server.ClientURL()
}

// OnReconnect registers a function that is called after the connection came back
// and there are all streams. Its context ends when the broker closes.
func (b *Broker) OnReconnect(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onReconnect = append(b.onReconnect, f)
}

// reconnected creates the streams that are missing, because a memory stream is gone after
// a restart of the broker, and then tells the others. A newer reconnect ends the
// work for an older one.
func (b *Broker) reconnected() {
	b.conn.connected()
	b.log.Info("nats: reconnected")
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the connection's callbacks have no context; Close ends this one
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		cancel()
		return
	}
	if b.repairing != nil {
		b.repairing()
	}
	b.repairing = cancel
	hooks := append([]func(context.Context){}, b.onReconnect...)
	b.repairs.Add(1)
	b.mu.Unlock()
	go func() {
		defer b.repairs.Done()
		b.repair(ctx, hooks)
	}()
}

func (b *Broker) repair(ctx context.Context, hooks []func(context.Context)) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := b.CreateMissingStreams(ctx)
		if err == nil {
			break
		}
		b.log.Warn("nats: streams not ready after the reconnect", "error", err)
		if Wait(ctx, wait) != nil {
			return
		}
	}
	for _, f := range hooks {
		f(ctx)
	}
}

// Ready returns nil when JetStream answers, and the reason otherwise. Trouble
// keeps what it found.
func (b *Broker) Ready(ctx context.Context) error {
	err := b.look(ctx)
	if err != nil {
		b.trouble.Store(&err)
	} else {
		b.trouble.Store(nil)
	}
	return err
}

// Trouble returns at once why JetStream cannot be used now: there is no
// connection, or the last check of Ready failed. Code that has a caller to answer
// calls it first: otherwise each caller would wait for its own timeout. It
// is nil as long as nothing is known to be wrong.
func (b *Broker) Trouble() error {
	if !b.nc.IsConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if err := b.trouble.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, *err)
	}
	return nil
}

func (b *Broker) look(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return errors.New("not connected to NATS")
	}
	// The log first: its answer is the one that the clock is compared with, and what is
	// wrong with another stream must not keep that from us.
	for _, name := range []string{b.names.Tasks(), b.names.Work(), b.names.Wait()} {
		info, err := b.timedInfo(ctx, name)
		if err != nil {
			return err // it names the stream
		}
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s has no leader", name)
		}
	}
	return nil
}

func (b *Broker) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	s, err := b.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// timedInfo is streamInfo, and for the task log a measurement of the clock: an answer
// has the time at the server that made it, the stream's leader.
func (b *Broker) timedInfo(ctx context.Context, name string) (info *jetstream.StreamInfo, err error) {
	if name != b.names.Tasks() {
		return b.streamInfo(ctx, name)
	}
	err = b.clock.Measure(func() (time.Time, error) {
		if info, err = b.streamInfo(ctx, name); err != nil {
			return time.Time{}, err
		}
		return info.TimeStamp, nil
	})
	return info, err
}

// flushTimeout bounds the wait for what is still to be sent at the end.
const flushTimeout = 2 * time.Second

// Close drains the connection and stops the embedded server. The callers have
// stopped publishing.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closing = true
	if b.repairing != nil {
		b.repairing()
	}
	b.mu.Unlock()
	b.repairs.Wait()
	// What was sent without waiting, such as the settlement of messages, goes out
	// first. A connection that is down has nothing to wait for.
	if b.nc.IsConnected() {
		if err := b.nc.FlushTimeout(flushTimeout); err != nil {
			b.log.Warn("nats: not everything was sent", "error", err)
		}
	}
	b.nc.Close()
	<-b.closed
	return b.stopEmbedded()
}

func (b *Broker) stopEmbedded() error {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.stop()
}

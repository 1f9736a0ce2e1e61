// Package broker connects genbus to JetStream, embedded or remote, keeps its
// streams as the design states them, and offers the few publishes and reads
// whose guarantees everything else rests on. It knows nothing of jobs.
package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

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
	// Wall is the time of day, as the machine has it. Default: time.Now.
	Wall func() time.Time
}

// Broker is one connection to JetStream, and the streams that it keeps there. It is safe
// for concurrent use.
type Broker struct {
	*connection
	streams  *Streams
	embedded *embedded // nil with a remote cluster

	failed    chan error
	endKeep   context.CancelFunc // of keepStore
	keepEnded sync.WaitGroup

	mu          sync.Mutex
	onReconnect []func(context.Context)
	repairing   context.CancelFunc
	closing     bool // nothing is repaired any more
	repairs     sync.WaitGroup
}

// Open connects, starting the embedded server where there is no URL. It does not
// touch the streams; Streams.Ensure does.
func Open(ctx context.Context, o Options) (*Broker, error) {
	c := &connection{
		names: o.Names, log: o.Logger, closed: make(chan struct{}), state: newConnState(), clock: clock.New(o.Wall),
		writers: newWriters(o.Names, o.URL == "" && !o.Embedded.NoSync), circuits: newCircuits(),
	}
	b := &Broker{connection: c, streams: newStreams(c, o.Limits, o.Replicas), failed: make(chan error, 1), endKeep: func() {}}
	url := o.URL
	opts := append(c.options(), nats.ReconnectHandler(func(*nats.Conn) { b.reconnected() }))
	opts = append(opts, o.Connect...)
	if url == "" {
		e, err := startEmbedded(o.Embedded, o.Logger)
		if err != nil {
			return nil, err
		}
		b.embedded, c.writers.server = e, e
		c.circuits.available = func(stream string) { e.sound(stream) }
		opts = append(opts, e.inProcess()...)
	}
	if err := c.connect(ctx, url, opts); err != nil {
		return nil, errors.Join(err, b.stopEmbedded())
	}
	if b.embedded != nil {
		var keeping context.Context
		keeping, b.endKeep = context.WithCancel(context.WithoutCancel(ctx))
		b.keepEnded.Go(func() { b.keepStore(keeping) })
	}
	return b, nil
}

// Streams keeps the streams and the durable consumers.
func (b *Broker) Streams() *Streams { return b.streams }

// ClientURL is the address of the embedded server for other processes, or empty.
func (b *Broker) ClientURL() string {
	if b.embedded == nil || b.embedded.server().Addr() == nil {
		return ""
	}
	return b.embedded.server().ClientURL()
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
	b.state.connected()
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
		err := b.streams.CreateMissing(ctx)
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
	b.endKeep()
	b.keepEnded.Wait()
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

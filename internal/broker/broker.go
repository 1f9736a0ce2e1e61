// Package broker connects genbus to JetStream, either embedded or remote. It keeps the streams
// configured and provides publishes and reads with the guarantees that the other packages rely on.
// It knows nothing about jobs.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/subject"
)

// Options configures Open.
type Options struct {
	// Names builds stream and subject names. Required.
	Names subject.Space
	// URL is the address of a NATS cluster. Default: an embedded server.
	URL string
	// Connect holds further connection options, such as credentials.
	Connect []nats.Option
	// Embedded configures the embedded server. Ignored if URL is set.
	Embedded Embedded
	// Replicas is the number of replicas of each stream. Default: 1.
	Replicas int
	// Limits sets the limits of the streams. Zero fields default to DefaultLimits.
	Limits Limits
	// Logger is required.
	Logger *slog.Logger
	// Wall reads the machine's time of day. Default: time.Now.
	Wall func() time.Time
}

// Broker reads, writes and administers the streams of JetStream. It is safe for concurrent use.
type Broker struct {
	*reader
	*writer
	*admin
	names    subject.Space
	log      *slog.Logger
	streams  *Streams
	embedded *embedded // nil if Options.URL is set

	trouble   atomic.Pointer[trouble] // nil if the last Ready succeeded
	failed    chan error
	endKeep   context.CancelFunc // stops keepStore and watchSpace
	keepEnded sync.WaitGroup

	mu          sync.Mutex
	onReconnect []func(context.Context)
	repairing   context.CancelFunc
	closing     bool // no new repairs
	repairs     sync.WaitGroup
}

// Open connects to NATS. If there is no URL, it first starts the embedded server. It does not touch
// the streams; call Streams.Ensure.
func Open(ctx context.Context, o Options) (*Broker, error) {
	b := &Broker{names: o.Names, log: o.Logger, failed: make(chan error, 1), endKeep: func() {}}
	reads, opts := newLink("genbus", o.Logger), o.Connect
	reads.onBack = b.reconnected
	// A read from a stream whose sync stalls keeps the embedded server from reading that
	// connection, so writes use a separate one. A remote server needs only one connection.
	writes := reads
	if o.URL == "" {
		e, err := startEmbedded(o.Embedded, o.Logger)
		if err != nil {
			return nil, err
		}
		b.embedded, opts, writes = e, slices.Concat(opts, e.inProcess()), newLink("genbus writes", o.Logger)
		writes.onBack = b.reconnected
	}
	b.writer = newWriter(writes, o.Names, b.embedded)
	b.reader = &reader{link: reads, synced: b.Synced}
	b.admin = &admin{reads: b.reader, names: o.Names, log: o.Logger, clock: clock.New(o.Wall)}
	b.streams = newStreams(b.admin, o.Limits, o.Replicas)
	if err := b.connect(ctx, o.URL, opts); err != nil {
		b.disconnect()
		return nil, errors.Join(err, b.stopEmbedded())
	}
	if b.embedded != nil {
		var keeping context.Context
		keeping, b.endKeep = context.WithCancel(context.WithoutCancel(ctx))
		b.keepEnded.Go(func() { b.keepStore(keeping) })
		b.keepEnded.Go(func() { b.embedded.watchSpace(keeping) })
	}
	return b, nil
}

// links returns the connections, starting with the one for writes.
func (b *Broker) links() []*link {
	if b.writer.link == b.reader.link {
		return []*link{b.writer.link}
	}
	return []*link{b.writer.link, b.reader.link}
}

func (b *Broker) connect(ctx context.Context, url string, opts []nats.Option) (err error) {
	for _, l := range b.links() {
		if err := l.dial(url, opts); err != nil {
			return err
		}
	}
	if b.js, err = jetstream.New(b.Conn()); err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	if err := b.replies.subscribe(b.WriteConn()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (b *Broker) disconnect() {
	for _, l := range b.links() {
		l.close()
	}
}

// Conn returns the connection for everything except writes. While a sync of the embedded server
// stalls, messages sent over it may be delayed by up to flusherTimeout, or lost.
func (b *Broker) Conn() *nats.Conn { return b.reader.link.nc }

// WriteConn returns the connection for writes and acks. Reads do not block it. A message sent over
// Conn may arrive after a message that was sent later over WriteConn, so flush a subscription
// before a write that it must see.
func (b *Broker) WriteConn() *nats.Conn { return b.writer.link.nc }

// MaxPayload returns the smallest max_payload seen since the process started, in bytes. The limit
// may come from the server, the account or the user.
func (b *Broker) MaxPayload() int64 { return b.writer.link.maxPayload() }

// Names returns the stream and subject names.
func (b *Broker) Names() subject.Space { return b.names }

// Streams returns the manager of streams and durable consumers.
func (b *Broker) Streams() *Streams { return b.streams }

// ClientURL returns the embedded server's address for other processes, or "".
func (b *Broker) ClientURL() string {
	if b.embedded == nil || b.embedded.server().Addr() == nil {
		return ""
	}
	return b.embedded.server().ClientURL()
}

// OnReconnect registers a function to call after a reconnect, once all streams exist. Its context
// ends at the next reconnect or when the broker closes.
func (b *Broker) OnReconnect(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onReconnect = append(b.onReconnect, f)
}

// reconnected creates missing streams in the background and then calls the hooks. Streams may be
// missing, because a restarted server has lost its memory streams. A newer reconnect cancels an
// older repair.
func (b *Broker) reconnected() {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // connection callbacks have no context; Close ends this one
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
		b.log.Warn("could not restore streams after reconnect, retrying", "error", err)
		if Wait(ctx, wait) != nil {
			return
		}
	}
	for _, f := range hooks {
		f(ctx)
	}
}

// Close flushes and closes the connections and stops the embedded server. Callers must have stopped
// publishing.
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
	b.disconnect()
	return b.stopEmbedded()
}

func (b *Broker) stopEmbedded() error {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.stop()
}

// Package broker connects genbus to JetStream, embedded or remote, keeps its
// streams as the design states them, and offers the few publishes and reads
// whose guarantees everything else rests on. It knows nothing of jobs.
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

// Broker reads, writes and administers the streams of JetStream. It is safe for concurrent use.
type Broker struct {
	*reader
	*writer
	*admin
	names    subject.Space
	log      *slog.Logger
	streams  *Streams
	embedded *embedded // nil with a remote cluster

	trouble   atomic.Pointer[trouble] // nil when the last look of Ready found all well
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
	b := &Broker{names: o.Names, log: o.Logger, failed: make(chan error, 1), endKeep: func() {}}
	reads, opts := newLink("genbus", o.Logger), o.Connect
	reads.onBack = b.reconnected
	// A read of a stream whose sync stalls keeps the embedded server from reading its connection,
	// so writes have another one. A remote server is reached by one.
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
	b.reader = &reader{link: reads, settled: b.Settled}
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
	}
	return b, nil
}

// links are the connections, those that write first.
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

// Conn is the connection for everything but writes. While a sync of the embedded server stalls,
// what is sent by it may wait for the server for up to flusherTimeout, or be lost.
func (b *Broker) Conn() *nats.Conn { return b.reader.link.nc }

// WriteConn is the connection for writes, settlements among them: no read holds them up. What is
// sent by Conn before may come after it: flush a subscription that is to hear of a write.
func (b *Broker) WriteConn() *nats.Conn { return b.writer.link.nc }

// MaxPayload returns the smallest max_payload (server, account or user limit) seen since the process
// started, in bytes.
func (b *Broker) MaxPayload() int64 { return b.writer.link.maxPayload() }

// Names are the stream and subject names.
func (b *Broker) Names() subject.Space { return b.names }

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
		b.log.Warn("could not restore streams after reconnect, retrying", "error", err)
		if Wait(ctx, wait) != nil {
			return
		}
	}
	for _, f := range hooks {
		f(ctx)
	}
}

// Close drains the connections and stops the embedded server. The callers have
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
	b.disconnect()
	return b.stopEmbedded()
}

func (b *Broker) stopEmbedded() error {
	if b.embedded == nil {
		return nil
	}
	return b.embedded.stop()
}

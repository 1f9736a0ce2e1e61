package joblog

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nuid"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/tail"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options makes a Log.
type Options struct {
	Broker  *broker.Broker
	Encoder publisher.Encoder
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	// ReaderBuffer bounds what a follower may be behind, in bytes. Default: 1 MiB.
	ReaderBuffer int
	// RereadEvery is how long nothing comes until a job that is followed is checked: core
	// delivery can lose its last event. Default: 10s.
	RereadEvery time.Duration
	// IndexSize bounds the jobs that List knows. Default: 100,000.
	IndexSize int
}

// New returns a log that can commit and get; Start adds Follow and List.
func New(o Options) *Log {
	if o.IndexSize == 0 {
		o.IndexSize = 100_000
	}
	h := &hub{}
	x := newIndex(o.IndexSize, h.observe)
	l := &Log{
		b: o.Broker, enc: o.Encoder, metrics: o.Metrics, log: o.Logger, writer: nuid.Next(),
		hub: h, index: x, Capacity: newCapacity(o, x),
	}
	l.tails = tail.NewSet(source{l}, tail.Options{Buffer: o.ReaderBuffer, Silence: o.RereadEvery, Trouble: o.Broker.Trouble})
	return l
}

func newCapacity(o Options, x *index) *Capacity {
	c := &Capacity{b: o.Broker, enc: o.Encoder, metrics: o.Metrics, index: x, lives: newLives()}
	c.reserved = reservations{read: c.readFigures, now: time.Now}
	return c
}

// Start subscribes to notices and begins to fill the list's index. Both end with ctx; the
// returned function waits until they have.
func (l *Log) Start(ctx context.Context) (wait func(), err error) {
	unsubscribe, err := l.subscribe()
	if err != nil {
		return nil, err
	}
	fill, err := l.index.start(ctx, l.b, l.log)
	if err != nil {
		unsubscribe()
		return nil, err
	}
	l.b.OnReconnect(func(context.Context) { l.tails.Wake() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		unsubscribe()
		<-fill
		l.Capacity.reserved.stop()
	}()
	return func() { <-done }, nil
}

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

// Options configures New.
type Options struct {
	Broker  *broker.Broker
	Encoder publisher.Encoder
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	// ReaderBuffer limits how far a follower may fall behind, in bytes. Default: 1 MiB.
	ReaderBuffer int
	// RereadEvery is how long a followed job may have no events before it is checked. A check is
	// needed because core NATS may lose the last event. Default: 10s.
	RereadEvery time.Duration
}

// New returns a log that can commit and read. Call Start to enable Follow and peer notifications.
func New(o Options) *Log {
	l := &Log{
		b: o.Broker, enc: o.Encoder, metrics: o.Metrics, writer: nuid.Next(), Capacity: newCapacity(o),
	}
	l.notifier = &notifier{b: o.Broker, log: o.Logger, writer: l.writer, hub: &hub{}}
	l.followers = &followers{tail.NewSet(source{l}, tail.Options{Buffer: o.ReaderBuffer, Silence: o.RereadEvery, Trouble: o.Broker.Trouble})}
	return l
}

func newCapacity(o Options) *Capacity {
	c := &Capacity{b: o.Broker, enc: o.Encoder, metrics: o.Metrics}
	c.reserved = reservations{read: c.readFigures, now: time.Now}
	return c
}

// Start subscribes to peer notifications until ctx ends. wait blocks until the subscriptions have
// ended.
func (l *Log) Start(ctx context.Context) (wait func(), err error) {
	unsubscribe, err := l.subscribe()
	if err != nil {
		return nil, err
	}
	l.b.OnReconnect(func(context.Context) { l.tails.Wake() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		unsubscribe()
		l.Capacity.reserved.stop()
	}()
	return func() { <-done }, nil
}

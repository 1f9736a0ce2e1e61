package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/telemetry"
)

// fetchBatch is the maximum number of messages per fetch. hold.FetchWait bounds its duration.
const fetchBatch = 256

// take starts work on a message and calls release when the message no longer needs its slot.
type take func(m jetstream.Msg, release func())

// fetcher fetches messages from one durable consumer.
type fetcher struct {
	c       *Consumer
	cons    jetstream.Consumer // identifies the durable consumer, which may be recreated
	free    *slots
	take    take
	metrics *telemetry.RouteMetrics
	idle    *idlePull
	restore func(context.Context) error // recreates the durable consumer if it was deleted
}

// run fetches until ctx ends. It does not fetch while this replica's clock is wrong, because the
// jobs could not start. It sends short requests while messages arrive. After a quiet period, it
// sends a long request if the preceding short request was sent successfully, because the client
// does not report a long request that it could not send.
func (f *fetcher) run(ctx context.Context) {
	log := fetchLog{log: f.c.Logger, consumer: f.cons.CachedInfo().Name}
	busy, succeeded := time.Now(), false
	for {
		if f.c.resync.pass(ctx) != nil || f.c.Broker.Clock().Await(ctx) != nil {
			return
		}
		ask, waits := f.fetch, succeeded && time.Since(busy) >= f.c.idleAfter
		if waits {
			ask = f.await
		}
		got, err := ask(ctx)
		if got > 0 || waits && err == nil {
			busy = time.Now()
		}
		if succeeded = err == nil; succeeded {
			log.succeeded()
			continue
		}
		f.metrics.FetchFailed()
		if mayBeDeleted(err) {
			err = errors.Join(err, f.restore(ctx))
		}
		log.failed(err)
		if broker.Wait(ctx, time.Second) != nil {
			return
		}
	}
}

// fetchLog logs the fetch failures of one loop.
type fetchLog struct {
	log          *slog.Logger
	consumer     string
	disconnected bool // the current NATS outage has been logged
}

// failed logs an error. It logs each NATS outage only once, because every loop fails once a second
// during an outage.
func (l *fetchLog) failed(err error) {
	// The client has no reconnect buffer, so it refuses to send while disconnected.
	disconnected := errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
	if disconnected && l.disconnected {
		return
	}
	if l.disconnected = disconnected; disconnected {
		err = errors.New("not connected to NATS (logged once per outage)")
	}
	l.log.Warn("could not fetch messages", "consumer", l.consumer, "error", err)
}

// succeeded records a successful fetch, which ends an outage.
func (l *fetchLog) succeeded() { l.disconnected = false }

// mayBeDeleted reports whether err may mean that the consumer or stream was deleted.
// ErrNoResponders also occurs while either has no leader.
func mayBeDeleted(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// fetch requests up to one message per free slot and starts work on each message as it arrives.
func (f *fetcher) fetch(ctx context.Context) (got int, err error) {
	n, err := f.free.reserve(ctx, fetchBatch)
	if err != nil {
		return 0, nil // the process is stopping
	}
	defer func() { f.free.release(n - got) }()
	batch, err := f.cons.Fetch(n, jetstream.FetchMaxWait(f.c.fetchWait))
	if err != nil {
		return 0, ended(ctx, fmt.Errorf("fetch %d messages: %w", n, err))
	}
	var late []jetstream.Msg
	for m := range batch.Messages() {
		got++
		if ctx.Err() != nil {
			late = append(late, m)
			continue
		}
		f.begin(m)
	}
	f.handBack(late)
	return got, ended(ctx, batch.Error())
}

func (f *fetcher) begin(m jetstream.Msg) {
	f.take(m, f.free.releaseOne)
}

// handBack returns messages that arrived after shutdown began.
func (f *fetcher) handBack(late []jetstream.Msg) {
	for _, m := range late {
		d, err := hold.NewDelivery(f.c.Broker.WriteConn(), m)
		if err == nil {
			err = d.Settle(hold.Return())
		}
		if err != nil {
			f.c.Logger.Warn("could not return message, awaiting redelivery", "subject", m.Subject(), "error", err)
		}
	}
	f.free.release(len(late))
}

// ended returns nil if err only reports that the fetch ended, and err otherwise.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages) {
		return nil //nolint:nilerr // the fetch ended without failing
	}
	return err
}

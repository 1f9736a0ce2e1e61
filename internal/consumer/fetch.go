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

// fetchBatch is the most messages of one fetch; hold.FetchWait bounds its time.
const fetchBatch = 256

// take begins work on a message and calls release when its slot is free.
type take func(m jetstream.Msg, release func())

// fetcher takes the messages of one durable consumer.
type fetcher struct {
	c       *Consumer
	cons    jetstream.Consumer // names it; it may be recreated
	free    *slots
	take    take
	metrics *telemetry.RouteMetrics
	idle    *idlePull
	restore func(context.Context) error // recreates a deleted durable consumer
}

// run fetches until ctx ends. It sends no request while this replica's clock is wrong, because it
// could not start the jobs. Requests are short while messages arrive. After a quiet time they are
// long, but only after a short one that was sent: the client does not report an unsent long one.
func (f *fetcher) run(ctx context.Context) {
	said := fetchLog{log: f.c.Logger, consumer: f.cons.CachedInfo().Name}
	busy, went := time.Now(), false
	for {
		if f.c.resync.pass(ctx) != nil || f.c.Broker.Clock().Await(ctx) != nil {
			return
		}
		ask, waits := f.fetch, went && time.Since(busy) >= f.c.idleAfter
		if waits {
			ask = f.await
		}
		got, err := ask(ctx)
		if got > 0 || waits && err == nil {
			busy = time.Now()
		}
		if went = err == nil; went {
			said.went()
			continue
		}
		f.metrics.FetchFailed()
		if gone(err) {
			err = errors.Join(err, f.restore(ctx))
		}
		said.failed(err)
		if broker.Wait(ctx, time.Second) != nil {
			return
		}
	}
}

// fetchLog logs why the fetches of one loop fail.
type fetchLog struct {
	log      *slog.Logger
	consumer string
	away     bool // the missing connection to NATS was logged
}

// failed logs an error, but an outage of NATS only once: each loop sees it every second.
func (l *fetchLog) failed(err error) {
	// The client buffers nothing, and refuses to send without a connection.
	away := errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
	if away && l.away {
		return
	}
	if l.away = away; away {
		err = errors.New("not connected to NATS (logged once per outage)")
	}
	l.log.Warn("could not fetch messages", "consumer", l.consumer, "error", err)
}

// went marks the end of an outage.
func (l *fetchLog) went() { l.away = false }

// gone reports whether a fetch failed because its consumer or stream may have been deleted. A fetch
// also has no responders while either lacks a leader.
func gone(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// fetch requests as many messages as there are free slots, and begins each as it arrives.
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

// handBack returns messages that arrived during the stop, after the end of their request.
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

// ended drops the errors that only report the end of a fetch.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages) {
		return nil //nolint:nilerr // the fetch has ended, not failed
	}
	return err
}

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

// fetchBatch is how many messages one fetch asks for at most; hold.FetchWait is its time.
const fetchBatch = 256

// take begins to work on a message and calls release when its slot is free.
type take func(m jetstream.Msg, release func())

// fetcher takes the messages of one durable consumer.
type fetcher struct {
	c       *Consumer
	cons    jetstream.Consumer // names it; it may be made again
	free    *slots
	take    take
	metrics *telemetry.RouteMetrics
	idle    *idlePull
	restore func(context.Context) error // makes the durable consumer again where it was deleted
}

// run fetches until ctx ends, and begins no request while this replica's clock is wrong: what
// it took it could not begin. Requests are short while messages come, and long afterwards:
// after a short one that went, as the client does not say that a long one was not sent.
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

// fetchLog says why the fetches of one loop fail.
type fetchLog struct {
	log      *slog.Logger
	consumer string
	away     bool // there was no connection to NATS, and that was said
}

// failed logs an error. In an outage of NATS each loop has the same one each second.
func (l *fetchLog) failed(err error) {
	// The client refuses what it cannot send, as nothing is buffered.
	away := errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrDisconnected)
	if away && l.away {
		return
	}
	if l.away = away; away {
		err = errors.New("not connected to NATS (logged once per outage)")
	}
	l.log.Warn("could not fetch messages", "consumer", l.consumer, "error", err)
}

// went ends an outage.
func (l *fetchLog) went() { l.away = false }

// gone reports whether a fetch failed because its consumer, or the stream, may have been
// deleted: without a leader of either, a fetch has no responders too.
func gone(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// fetch asks for as many messages as there are slots and hands each on as it comes.
func (f *fetcher) fetch(ctx context.Context) (got int, err error) {
	n, err := f.free.reserve(ctx, fetchBatch)
	if err != nil {
		return 0, nil // the process stops
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

// begin begins to work on a message, which has its slot.
func (f *fetcher) begin(m jetstream.Msg) {
	f.take(m, f.free.releaseOne)
}

// handBack gives back messages that arrived while the process stops, after the request that
// brought them is over.
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

// ended drops the errors of a fetch that only say that it is over.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jetstream.ErrNoMessages) {
		return nil //nolint:nilerr // that is what this is for
	}
	return err
}

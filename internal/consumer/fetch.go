package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/telemetry"
)

// fetchBatch is how many messages one pull request asks for at most.
const fetchBatch = 256

// take begins to work on a message and calls release when its slot is free.
type take func(m hold.Msg, release func())

// fetchLoop fetches until ctx ends, and nothing while this replica's clock is wrong: what
// it took it could not begin. restore makes the durable consumer again where it was
// deleted.
func (c *Consumer) fetchLoop(ctx context.Context, p *puller, free *slots, take take, metrics *telemetry.RouteMetrics, restore func(context.Context) error) {
	said := fetchLog{log: c.Logger, consumer: p.durable}
	var late []hold.Msg
	began := func(m hold.Msg, release func()) {
		if ctx.Err() != nil {
			late = append(late, m)
			release()
			return
		}
		said.went()
		take(m, release)
	}
	for c.resync.pass(ctx) == nil && c.Broker.Clock().Await(ctx) == nil {
		err := p.run(ctx, c.Broker.Down(), free, began)
		if err == nil && c.Broker.Down().Err() != nil {
			_ = broker.Wait(ctx, time.Second) // for a connection
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		metrics.FetchFailed()
		if gone(err) {
			err = errors.Join(err, restore(ctx))
		}
		said.failed(err)
		_ = broker.Wait(ctx, time.Second) // the loop looks at ctx
	}
	// What came while the process stops is given back after no request is out.
	for _, m := range late {
		c.handBack(m)
	}
}

// watchPulls ends the pull requests of this process while its clock is wrong, so that what
// it gives back does not come to it again.
func (c *Consumer) watchPulls() {
	for broker.Wait(c.holder.Fetching, hold.ClockCheck) == nil {
		if _, err := c.Broker.Clock().Now(); err != nil {
			for _, p := range c.pullers {
				p.interrupt(0)
			}
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
		err = errors.New("not connected to NATS; this is said once for each outage")
	}
	l.log.Warn("fetch failed", "consumer", l.consumer, "error", err)
}

// went ends an outage.
func (l *fetchLog) went() { l.away = false }

// gone reports whether a fetch failed because its consumer, or the stream, may have been
// deleted: without a leader of either, a fetch has no responders too.
func gone(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerDeleted) ||
		errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// handBack gives back a message that arrived while the process stops.
func (c *Consumer) handBack(m hold.Msg) {
	d, err := hold.NewDelivery(c.Broker.Conn(), m)
	if err == nil {
		err = d.Settle(hold.Return())
	}
	if err != nil {
		c.Logger.Warn("a message could not be given back; it is redelivered", "subject", m.Subject(), "error", err)
	}
}

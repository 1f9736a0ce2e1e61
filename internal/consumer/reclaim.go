package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
)

// reclaimAckWait is the temporary AckWait after an embedded server starts.
const reclaimAckWait = 2 * time.Second

// durable creates or updates a durable consumer.
//
// A restarted embedded server remembers which messages were delivered. It does not remember which
// were returned or that the previous process has exited, so it would not redeliver them until
// AckWait expires. Usually no process holds them, so durable shortens AckWait until they have been
// redelivered (ADR 2). If an external replica does hold one, the job log lets only one of
// the two replicas continue.
func (c *Consumer) durable(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	cons, err := c.Broker.Streams().EnsureConsumer(ctx, stream, cfg)
	if err != nil || !c.Config.Now().NATS.Embedded() || cfg.AckWait <= reclaimAckWait || cons.CachedInfo().NumAckPending == 0 {
		return cons, err
	}
	short := cfg
	short.AckWait = reclaimAckWait
	if _, err := c.Broker.Streams().EnsureConsumer(ctx, stream, short); err != nil {
		return nil, err
	}
	c.Logger.Info("redelivering messages held at the last stop", "consumer", cfg.Durable, "messages", cons.CachedInfo().NumAckPending)
	c.loops.Go(func() { c.restoreAckWait(stream, cfg) })
	return cons, nil
}

func (c *Consumer) restoreAckWait(stream string, cfg jetstream.ConsumerConfig) {
	// Restore AckWait even if the process is stopping.
	_ = broker.Wait(c.holder.Fetching, reclaimAckWait+reclaimAckWait/4)
	for {
		ctx, cancel := context.WithTimeout(c.holder.Working, broker.ReadTimeout)
		_, err := c.Broker.Streams().EnsureConsumer(ctx, stream, cfg)
		cancel()
		if err == nil {
			return
		}
		c.Logger.Error("could not restore the consumer's AckWait, retrying", "consumer", cfg.Durable, "error", err)
		if broker.Wait(c.holder.Working, hold.Retry) != nil {
			return
		}
	}
}

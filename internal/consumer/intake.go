package consumer

import (
	"context"

	"github.com/genbus/genbus/internal/consumer/intake"
	"github.com/genbus/genbus/internal/subject"
)

// startIntake starts one inbox fetch loop for each kind of request and returns the inboxes to
// count.
func (c *Consumer) startIntake(ctx context.Context) (counted []*countedInbox, err error) {
	for _, kind := range subject.Kinds {
		in := c.intake(kind)
		stream, cfg := in.Durable()
		cons, err := c.durable(ctx, stream, cfg)
		if err != nil {
			return counted, err
		}
		restore := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, restoreWithin)
			defer cancel()
			_, err := c.Broker.Streams().RestoreConsumer(ctx, stream, cfg)
			return err
		}
		f := fetcher{
			c: c, cons: cons, free: newSlots(intake.Slots), take: in.Take, metrics: c.Metrics.Route(kind, "intake"), idle: c.idle.add(), restore: restore,
		}
		c.loops.Go(func() { f.run(c.holder.Fetching) })
		counted = append(counted, &countedInbox{durable: cfg.Durable, metrics: f.metrics, idle: f.idle})
	}
	return counted, nil
}

func (c *Consumer) intake(kind subject.Kind) *intake.Intake {
	return intake.New(kind, intake.Options{
		Life: c.holder.Life, Broker: c.Broker, Log: c.Log, Items: c.Queue.Items, DeadLetters: c.DeadLetters,
		Uploads: c.Uploads, Admission: c.Admission, Tracing: c.Tracing, Logger: c.Logger,
	})
}

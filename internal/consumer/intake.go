package consumer

import (
	"context"

	"github.com/genbus/genbus/internal/consumer/intake"
	"github.com/genbus/genbus/internal/subject"
)

// startIntake begins to fetch requests of all kinds.
func (c *Consumer) startIntake(ctx context.Context) error {
	for _, kind := range subject.Kinds {
		in := c.intake(kind)
		stream, cfg := in.Durable()
		cons, err := c.durable(ctx, stream, cfg)
		if err != nil {
			return err
		}
		restore := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, restoreWithin)
			defer cancel()
			_, err := c.Broker.Streams().RestoreConsumer(ctx, stream, cfg)
			return err
		}
		free := newSlots(intake.Slots)
		c.loops.Go(func() {
			c.fetchLoop(c.holder.Fetching, cons, free, in.Take, c.Metrics.Route(kind, "intake"), &idlePull{}, restore)
		})
	}
	return nil
}

func (c *Consumer) intake(kind subject.Kind) *intake.Intake {
	return intake.New(kind, intake.Options{
		Life: c.holder.Life, Broker: c.Broker, Log: c.Log, Items: c.Queue.Items, Letters: c.Letters,
		Uploads: c.Uploads, Admission: c.Admission, Tracing: c.Tracing, Logger: c.Logger,
	})
}

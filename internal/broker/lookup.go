package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream looks a stream up, with its state, within ReadTimeout: the client's own
// limit is only for contexts without a deadline, and a caller may wait for minutes.
// An error is ErrUnavailable too, unless there is no such stream.
func (b *Broker) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := lookup(ctx, "stream "+name)
	defer cancel()
	s, err := b.js.Stream(ctx, name)
	return s, lookupError(ctx, "stream "+name, err, jetstream.ErrStreamNotFound)
}

// Consumer looks a durable consumer up, with its state, as Stream does a stream.
func (b *Broker) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	what := "consumer " + name + " of " + stream
	ctx, cancel := lookup(ctx, what)
	defer cancel()
	c, err := b.js.Consumer(ctx, stream, name)
	return c, lookupError(ctx, what, err, jetstream.ErrConsumerNotFound)
}

func lookup(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("%s: no answer within %s", what, ReadTimeout))
}

func lookupError(ctx context.Context, what string, err, missing error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, missing):
		return fmt.Errorf("%s: %w", what, err)
	case ctx.Err() != nil:
		return errors.Join(ErrUnavailable, context.Cause(ctx), err)
	default:
		return fmt.Errorf("%s: %w", what, errors.Join(ErrUnavailable, err))
	}
}

// QueuedJobs counts the work items. A job that moves is not missed: it is among the
// ready ones before it leaves the backlog.
func (b *Broker) QueuedJobs(ctx context.Context) (jobs int64, err error) {
	for _, name := range []string{b.names.Wait(), b.names.Work()} {
		s, err := b.Stream(ctx, name)
		if err != nil {
			return 0, err
		}
		jobs += int64(s.CachedInfo().State.Msgs)
	}
	return jobs, nil
}

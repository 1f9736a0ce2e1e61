package broker

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// guardedJetStream is the JetStream context whose requests about a stream go through its
// circuit. What it returns sends its own: a jetstream.Stream soon after it was looked up, and an
// ordered consumer where it hears no heartbeat.
type guardedJetStream struct {
	jetstream.JetStream
	circuits *circuits
}

// guarded waits for the circuit as long as the client would for the answer.
func guarded[T any](ctx context.Context, js guardedJetStream, stream string, f func() (T, error)) (out T, err error) {
	wait, cancel := ctx, func() {}
	if _, bounded := ctx.Deadline(); !bounded {
		wait, cancel = context.WithTimeout(ctx, ReadTimeout)
	}
	defer cancel()
	err = js.circuits.ask(wait, stream, func() (err error) {
		out, err = f()
		return err
	})
	return out, err
}

func (js guardedJetStream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return guarded(ctx, js, name, func() (jetstream.Stream, error) { return js.JetStream.Stream(ctx, name) })
}

func (js guardedJetStream) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return guarded(ctx, js, stream, func() (jetstream.Consumer, error) { return js.JetStream.Consumer(ctx, stream, name) })
}

func (js guardedJetStream) CreateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return guarded(ctx, js, stream, func() (jetstream.Consumer, error) { return js.JetStream.CreateConsumer(ctx, stream, c) })
}

func (js guardedJetStream) CreateOrUpdateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return guarded(ctx, js, stream, func() (jetstream.Consumer, error) { return js.JetStream.CreateOrUpdateConsumer(ctx, stream, c) })
}

func (js guardedJetStream) OrderedConsumer(ctx context.Context, stream string, c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	return guarded(ctx, js, stream, func() (jetstream.Consumer, error) { return js.JetStream.OrderedConsumer(ctx, stream, c) })
}

func (js guardedJetStream) CreateOrUpdateObjectStore(ctx context.Context, c jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	return guarded(ctx, js, objectwrite.Stream(c.Bucket), func() (jetstream.ObjectStore, error) {
		return js.JetStream.CreateOrUpdateObjectStore(ctx, c)
	})
}

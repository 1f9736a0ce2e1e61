package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// EnsureConsumer creates or updates a durable consumer, unless a newer version of genbus has
// configured it. The pause of a route stays.
func (s *Streams) EnsureConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	want.Metadata = maps.Clone(want.Metadata)
	if want.Metadata == nil {
		want.Metadata = map[string]string{}
	}
	maps.Copy(want.Metadata, revisionMetadata())
	var c jetstream.Consumer
	err := s.admin.RetryUntilLeader(ctx, "ensure consumer "+want.Durable, func(ctx context.Context) (err error) {
		c, err = s.ensureConsumer(ctx, stream, want)
		return err
	})
	return c, err
}

// RestoreConsumer recreates a missing durable consumer, and its stream if that is missing too. It
// does not change an existing consumer, because another replica may have configured it differently.
func (s *Streams) RestoreConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	// The timeout is short, because a consumer without a leader does not answer, and the caller
	// should continue as soon as there is a leader.
	look, cancel := context.WithTimeout(ctx, time.Second)
	c, err := s.admin.Consumer(look, stream, want.Durable)
	cancel()
	if err == nil {
		return c, nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = s.CreateMissing(ctx)
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	if err := Wait(ctx, deletionTakes); err != nil {
		return nil, err
	}
	if c, err := s.admin.Consumer(ctx, stream, want.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err // another process created it
	}
	want.Metadata = revisionMetadata()
	c, err = s.admin.js.CreateConsumer(ctx, stream, want)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return s.admin.Consumer(ctx, stream, want.Durable)
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", want.Durable, stream, err)
	}
	s.admin.log.Warn("recreated missing consumer, any pause is lost", "stream", stream, "consumer", want.Durable)
	return c, nil
}

func (s *Streams) ensureConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	have, err := s.admin.js.Consumer(ctx, stream, want.Durable)
	if err == nil {
		metadata := have.CachedInfo().Config.Metadata
		if newer(metadata) {
			return have, nil
		}
		if pause, ok := metadata[subject.MetadataPause]; ok {
			want.Metadata[subject.MetadataPause] = pause
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("consumer %s of %s: %w", want.Durable, stream, err)
	}
	c, err := s.admin.js.CreateOrUpdateConsumer(ctx, stream, want)
	return c, wrapf(err, "consumer %s of %s", want.Durable, stream)
}

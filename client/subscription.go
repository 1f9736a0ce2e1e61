package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/genbus/genbus/internal/subject"
)

// Times of a reader.
const (
	ackWait     = 30 * time.Second // until a job that a dead program had goes to another
	forgetAfter = time.Hour        // of a reader without a durable name that is gone
	pullWait    = 20 * time.Second
	firstRetry  = time.Second // of a job whose handler failed
	maxRetry    = time.Minute
	firstRebind = 250 * time.Millisecond // after the consumer was lost
	maxRebind   = 5 * time.Second
)

// subscription is one call of Subscribe.
type subscription struct {
	c       *Client
	feed    Feed
	filters []string
	handle  func(context.Context, Finished) error

	mu       sync.Mutex
	consumer jetstream.Consumer
	name     string              // of the consumer; made up where the feed has none
	open     map[uint64]struct{} // sequences that were delivered and not dealt with
	seen     uint64              // the highest sequence that was delivered
}

// bind makes the consumer, or finds it. One that is there keeps its place, wherever the
// feed would begin.
func (s *subscription) bind(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.wait, fmt.Errorf("no answer within %s", s.c.wait))
	defer cancel()
	cfg := s.config()
	old, err := s.c.js.Consumer(ctx, s.c.names.Tasks(), cfg.Durable)
	switch {
	case err == nil:
		was := old.CachedInfo().Config
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = was.DeliverPolicy, was.OptStartSeq, was.OptStartTime
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, err
	}
	return s.c.js.CreateOrUpdateConsumer(ctx, s.c.names.Tasks(), cfg)
}

func (s *subscription) config() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: s.feed.Durable, FilterSubjects: s.filters,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
		DeliverPolicy: s.feed.From.policy,
	}
	if at := s.feed.From.at; !at.IsZero() {
		cfg.OptStartTime = &at
	}
	if cfg.Durable == "" {
		if s.name == "" {
			s.name = "reader-" + nuid.Next()
		}
		cfg.Durable, cfg.InactiveThreshold = s.name, forgetAfter
	}
	if from := s.floor(); from > 0 { // it was lost: go on where it was
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, from, nil
	}
	return cfg
}

// floor is the first sequence that was not dealt with; 0 when nothing was delivered.
func (s *subscription) floor() uint64 {
	if s.seen == 0 {
		return 0
	}
	first := s.seen + 1
	for seq := range s.open {
		first = min(first, seq)
	}
	return first
}

// leave removes a consumer that has no durable name.
func (s *subscription) leave(ctx context.Context) error {
	if s.feed.Durable != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if err := s.c.js.DeleteConsumer(ctx, s.c.names.Tasks(), s.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.c.log.Debug("a reader without a name stays until its time is over", "consumer", s.name, "error", err)
	}
	return nil
}

// work handles one job after the other until ctx ends.
func (s *subscription) work(ctx context.Context) {
	wait := firstRebind
	for ctx.Err() == nil {
		consumer := s.current()
		m, err := next(ctx, consumer)
		switch {
		case err == nil:
			wait = firstRebind
			s.take(ctx, m)
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoMessages):
			// Nothing came.
		case ctx.Err() == nil:
			s.c.log.Warn("the feed of finished jobs cannot be read; trying again", "error", err, "wait", wait)
			_ = pause(ctx, wait) // the loop looks at ctx
			wait = min(2*wait, maxRebind)
			s.rebind(ctx, consumer)
		}
	}
}

// next pulls one job: what waits here for a handler would wait too long.
func next(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	return consumer.Next(jetstream.FetchContext(ctx))
}

func (s *subscription) current() jetstream.Consumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer
}

// rebind makes the consumer again, unless another worker has.
func (s *subscription) rebind(ctx context.Context, lost jetstream.Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.consumer != lost {
		return
	}
	consumer, err := s.bind(ctx)
	if err != nil {
		s.c.log.Debug("the reader could not be made again", "error", err)
		return
	}
	s.consumer = consumer
}

// take has one job handled, and settles it.
func (s *subscription) take(ctx context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		s.c.log.Warn("a message that is no delivery", "subject", m.Subject(), "error", err)
		return
	}
	s.delivered(meta.Sequence.Stream)
	done, err := s.decode(m, meta)
	if err != nil {
		// It would not become one by coming again.
		s.c.log.Error("a message that is no finished job", "subject", m.Subject(), "error", err)
		_ = m.Term() // what is lost of it comes again
		s.settled(meta.Sequence.Stream)
		return
	}
	stop := hold(m)
	err = s.handle(ctx, done)
	stop()
	if err != nil {
		s.c.log.Log(ctx, failedLevel(ctx), "a handler failed; the job comes again", "job_id", done.ID, "delivery", done.Delivery, "error", err)
		_ = m.NakWithDelay(min(firstRetry<<min(done.Delivery-1, 6), maxRetry)) // lost: it comes after ackWait
		return
	}
	if err := m.Ack(); err == nil { // lost: it comes once more
		s.settled(meta.Sequence.Stream)
	}
}

// failedLevel is lower for a handler that was told to stop.
func failedLevel(ctx context.Context) slog.Level {
	if ctx.Err() != nil {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

func (s *subscription) delivered(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[seq] = struct{}{}
	s.seen = max(s.seen, seq)
}

func (s *subscription) settled(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, seq)
}

// hold keeps a job from being given to another reader while its handler works.
func hold(m jetstream.Msg) (stop func()) {
	tick, end := time.NewTicker(ackWait/3), make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = m.InProgress() // lost: the next one is in time
			case <-end:
				return
			}
		}
	})
	return func() { close(end); holding.Wait() }
}

func (s *subscription) decode(m jetstream.Msg, meta *jetstream.MsgMetadata) (Finished, error) {
	name, err := s.c.names.ParseDone(m.Subject())
	if err != nil {
		return Finished{}, err
	}
	e, err := decodeEvent(Kind(name.Kind), m.Headers(), m.Data())
	if err != nil {
		return Finished{}, err
	}
	return Finished{
		EventID: m.Headers().Get(subject.HeaderCEID), Kind: Kind(name.Kind), Tenant: name.Tenant, ID: name.ID,
		Delivery: meta.NumDelivered, Video: e.video, Chat: e.chat,
	}, nil
}

package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

	binding sync.Mutex // held while the consumer is made; taken before mu
	name    string     // of the consumer; made up where the feed has none

	mu       sync.Mutex
	consumer jetstream.Consumer
	stream   time.Time // when the stream was made
	floor    uint64    // everything up to here is dealt with; 0 before the first bind
	looked   time.Time // when the floor was read
	// held are the jobs in hand, by their event. A delivery of one that is in hand already
	// (NATS was away for longer than ackWait) only replaces its message.
	held map[string]*heldJob
	// dealt are the newest jobs that were acknowledged: one whose acknowledgement was lost,
	// or that comes again with a consumer that was, is not handled again here.
	dealt     map[string]struct{}
	dealtList []string // in their order, the oldest first
}

// maxDealt bounds dealt.
const maxDealt = 4096

// heldJob is a job whose handler runs.
type heldJob struct {
	mu sync.Mutex
	m  jetstream.Msg // the newest delivery: acknowledgements of earlier ones have no effect
}

func (h *heldJob) newest() jetstream.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m
}

// bind makes the consumer, or finds it. One that is there keeps its place, wherever the
// feed would begin; one that was lost begins where this reader knows that it was, or a
// little before.
func (s *subscription) bind(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.c.wait, fmt.Errorf("no answer within %s", s.c.wait))
	defer cancel()
	stream, err := s.c.js.Stream(ctx, s.c.names.Tasks())
	if err != nil {
		return nil, err
	}
	cfg := s.config(stream.CachedInfo().Created)
	old, err := stream.Consumer(ctx, cfg.Durable)
	switch {
	case err == nil:
		was := old.CachedInfo().Config
		if reads := filtersOf(was); !sameSubjects(reads, s.filters) {
			return nil, fmt.Errorf("consumer %s already exists and reads %s, not %s: choose another Feed.Durable, or delete this consumer of %s to start over",
				cfg.Durable, strings.Join(reads, ", "), strings.Join(s.filters, ", "), s.c.names.Tasks())
		}
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = was.DeliverPolicy, was.OptStartSeq, was.OptStartTime
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = stream.CachedInfo().Created
	s.note(consumer.CachedInfo())
	return consumer, nil
}

// filtersOf are the subjects that a consumer reads.
func filtersOf(cfg jetstream.ConsumerConfig) []string {
	if cfg.FilterSubject != "" {
		return []string{cfg.FilterSubject}
	}
	return cfg.FilterSubjects
}

// sameSubjects compares two lists in any order.
func sameSubjects(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// config is the consumer as the feed wants it, in a stream that was made at a time.
func (s *subscription) config(made time.Time) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: s.feed.Durable, FilterSubjects: s.filters,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
		// Jobs whose handlers failed wait among those that are not acknowledged: with a limit, that many would stop the feed.
		// Nothing else piles up there, as each worker pulls one.
		MaxAckPending: -1,
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
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stream.IsZero(): // the first time
	case !s.stream.Equal(made): // another stream, whose sequences start again: all of it is new
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverAllPolicy, nil
	default:
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, s.floor+1, nil
	}
	return cfg
}

// note remembers how far the consumer is, for all who share it.
func (s *subscription) note(info *jetstream.ConsumerInfo) {
	s.floor, s.looked = info.AckFloor.Stream, time.Now()
	if info.Delivered.Consumer == 0 { // nothing yet: this is where it begins
		s.floor = info.Delivered.Stream
	}
}

// refresh reads how far the consumer is, every now and then.
func (s *subscription) refresh(ctx context.Context) {
	s.mu.Lock()
	due, consumer := time.Since(s.looked) >= pullWait, s.consumer
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	info, err := consumer.Info(ctx)
	if err != nil { // the next pull says so, too
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.consumer == consumer {
		s.note(info)
	}
}

// leave removes a consumer that has no durable name.
func (s *subscription) leave(ctx context.Context) {
	if s.feed.Durable != "" || s.c.nc.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if err := s.c.js.DeleteConsumer(ctx, s.c.names.Tasks(), s.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.c.log.Debug("could not delete consumer, left to expire", "consumer", s.name, "error", err)
	}
}

// work handles one job after the other until ctx ends, or the connection is closed for
// good.
func (s *subscription) work(ctx context.Context) error {
	wait := firstRebind
	for ctx.Err() == nil {
		consumer := s.current()
		m, err := next(ctx, consumer)
		switch {
		case err == nil:
			wait = firstRebind
			s.take(ctx, m)
			s.refresh(ctx)
		case s.c.nc.IsClosed():
			return nats.ErrConnectionClosed
		case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoMessages):
			s.refresh(ctx)
		case ctx.Err() == nil:
			s.c.log.Warn("could not read feed, retrying", "error", err, "wait", wait.String())
			_ = pause(ctx, wait) // the loop looks at ctx
			wait = min(2*wait, maxRebind)
			s.rebind(ctx, consumer)
		}
	}
	return nil
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
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.current() != lost {
		return
	}
	consumer, err := s.bind(ctx)
	if err != nil {
		s.c.log.Debug("could not recreate consumer", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consumer = consumer
}

// take has one job handled, and settles it.
func (s *subscription) take(ctx context.Context, m jetstream.Msg) {
	done, err := s.decode(m)
	if err != nil {
		// It would not become one by coming again.
		s.c.log.Error("dropped message that is not a finished job", "subject", m.Subject(), "error", err)
		_ = m.Term() // what is lost of it comes again
		return
	}
	if s.wasDealt(done.EventID) {
		_ = m.Ack() // lost: it comes once more
		return
	}
	job, fresh := s.hold(done.EventID, m)
	if !fresh {
		return
	}
	defer s.release(done.EventID)
	defer job.extend()() // until it is settled
	err = s.handle(ctx, done)
	if err != nil {
		s.c.log.Log(ctx, failedLevel(ctx), "handler failed, job will be redelivered", "job_id", done.ID, "delivery", done.Delivery, "error", err)
		_ = job.newest().NakWithDelay(min(firstRetry<<min(done.Delivery-1, 6), maxRetry)) // lost: it comes after ackWait
		return
	}
	s.deal(done.EventID)
	_ = job.newest().Ack() // lost: it comes once more
}

func (s *subscription) wasDealt(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.dealt[event]
	return ok
}

// deal remembers a job that was dealt with, in the place of the oldest.
func (s *subscription) deal(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dealtList) == maxDealt {
		delete(s.dealt, s.dealtList[0])
		s.dealtList = s.dealtList[1:]
	}
	s.dealt[event] = struct{}{}
	s.dealtList = append(s.dealtList, event)
}

// hold registers a job in hand. It is not fresh when it was in hand before.
func (s *subscription) hold(event string, m jetstream.Msg) (job *heldJob, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job = s.held[event]; job == nil {
		job = &heldJob{m: m}
		s.held[event] = job
		return job, true
	}
	job.mu.Lock()
	defer job.mu.Unlock()
	job.m = m
	return job, false
}

func (s *subscription) release(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, event)
}

// failedLevel is lower for a handler that was told to stop.
func failedLevel(ctx context.Context) slog.Level {
	if ctx.Err() != nil {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// extend keeps a job from being given to another reader while its handler works.
func (h *heldJob) extend() (stop func()) {
	tick, end := time.NewTicker(ackWait/3), make(chan struct{})
	var extending sync.WaitGroup
	extending.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = h.newest().InProgress() // lost: the next one is in time
			case <-end:
				return
			}
		}
	})
	return func() { close(end); extending.Wait() }
}

func (s *subscription) decode(m jetstream.Msg) (Finished, error) {
	meta, err := m.Metadata()
	if err != nil {
		return Finished{}, err
	}
	name, err := s.c.names.ParseDone(m.Subject())
	if err != nil {
		return Finished{}, err
	}
	e, err := decodeEvent(Kind(name.Kind), m.Headers(), m.Data())
	if err != nil {
		return Finished{}, err
	}
	done := Finished{
		EventID: m.Headers().Get(subject.HeaderCEID), Kind: Kind(name.Kind), Tenant: name.Tenant, ID: name.ID,
		Delivery: meta.NumDelivered, Video: e.video, Chat: e.chat,
	}
	if !e.ended || done.EventID == "" || e.id != name.ID {
		return Finished{}, errors.New("it is not a terminal event of the job named by its subject")
	}
	return done, nil
}

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

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Timing of a reader.
const (
	ackWait     = 30 * time.Second // before NATS redelivers the job of a dead program
	expireAfter = time.Hour        // before NATS removes an abandoned consumer without a durable name
	pullWait    = 20 * time.Second
	firstRetry  = time.Second // redelivery delay after a failed handler
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

	binding sync.Mutex // held while binding; taken before mu
	name    string     // generated consumer name if the feed has none

	mu       sync.Mutex
	consumer jetstream.Consumer
	stream   time.Time // when the stream was created
	floor    uint64    // every message up to here was acked; 0 before the first bind
	looked   time.Time // when floor was read
	// held has the jobs whose handlers are running, by event. If NATS was unreachable for longer
	// than ackWait, a job may be delivered again while it is held. That delivery only replaces the
	// job's message.
	held map[string]*heldJob
	// dealt records the newest acked jobs, so that a redelivery after a lost ack or a recreated
	// consumer is not handled again.
	dealt     map[string]struct{}
	dealtList []string // oldest first
}

// maxDealt bounds dealt.
const maxDealt = 4096

// heldJob is a job whose handler is running.
type heldJob struct {
	mu sync.Mutex
	m  jetstream.Msg // newest delivery; acks of earlier ones have no effect
}

func (h *heldJob) newest() jetstream.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m
}

// bind creates the consumer or finds it. An existing consumer keeps its position, whatever
// Feed.From says. A lost one restarts at this reader's last known position, or slightly before.
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

// filtersOf returns the subjects that a consumer reads.
func filtersOf(cfg jetstream.ConsumerConfig) []string {
	if cfg.FilterSubject != "" {
		return []string{cfg.FilterSubject}
	}
	return cfg.FilterSubjects
}

// sameSubjects reports whether two lists have the same subjects, in any order.
func sameSubjects(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// config returns the consumer configuration for a stream created at made.
func (s *subscription) config(made time.Time) jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable: s.feed.Durable, FilterSubjects: s.filters,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
		// Jobs whose handlers failed stay pending, so a limit would stop the feed once that many
		// fail. Each worker pulls one job at a time, so nothing else accumulates.
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
		cfg.Durable, cfg.InactiveThreshold = s.name, expireAfter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stream.IsZero(): // first bind
	case !s.stream.Equal(made): // recreated stream: its sequences restart, and every message is new
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverAllPolicy, nil
	default:
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartSequencePolicy, s.floor+1, nil
	}
	return cfg
}

// note records the consumer's position, which all its readers share. The caller holds mu.
func (s *subscription) note(info *jetstream.ConsumerInfo) {
	s.floor, s.looked = info.AckFloor.Stream, time.Now()
	if info.Delivered.Consumer == 0 { // nothing delivered yet: Delivered is the start
		s.floor = info.Delivered.Stream
	}
}

// refresh rereads the consumer's position at most once per pullWait.
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
	if err != nil { // the next pull reports it, too
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.consumer == consumer {
		s.note(info)
	}
}

// deleteConsumer removes a consumer without a durable name.
func (s *subscription) deleteConsumer(ctx context.Context) {
	if s.feed.Durable != "" || s.c.nc.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	if err := s.c.js.DeleteConsumer(ctx, s.c.names.Tasks(), s.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.c.log.Debug("could not delete consumer, left to expire", "consumer", s.name, "error", err)
	}
}

// work handles jobs one at a time until ctx ends or the connection is closed for good.
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
			_ = pause(ctx, wait) // the loop checks ctx
			wait = min(2*wait, maxRebind)
			s.rebind(ctx, consumer)
		}
	}
	return nil
}

// next pulls a single job: a prefetched one could exceed ackWait before its handler starts.
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

// rebind recreates the consumer unless another worker already has.
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

// take handles one delivery and acks it, terminates it, or naks it with a delay.
func (s *subscription) take(ctx context.Context, m jetstream.Msg) {
	done, err := s.decode(m)
	if err != nil {
		// Redelivery would not fix it.
		s.c.log.Error("dropped message that is not a finished job", "subject", m.Subject(), "error", err)
		_ = m.Term() // if lost, it is redelivered
		return
	}
	if s.wasDealt(done.EventID) {
		_ = m.Ack() // if lost, it is redelivered
		return
	}
	job, fresh := s.hold(done.EventID, m)
	if !fresh {
		return
	}
	defer s.release(done.EventID)
	defer job.extend()() // until acked
	err = s.handle(ctx, done)
	if end, ok := errors.AsType[*giveUpError](err); ok {
		s.c.log.Error("handler gave up, job will not be redelivered", "job_id", done.ID, "delivery", done.Delivery, "error", end)
		s.deal(done.EventID)
		_ = job.newest().TermWithReason(errcode.Clip(end.Error(), errcode.MaxMessage)) // if lost, it is redelivered
		return
	}
	if err != nil {
		s.c.log.Log(ctx, failedLevel(ctx), "handler failed, job will be redelivered", "job_id", done.ID, "delivery", done.Delivery, "error", err)
		_ = job.newest().NakWithDelay(min(firstRetry<<min(done.Delivery-1, 6), maxRetry)) // if lost, it is redelivered after ackWait
		return
	}
	s.deal(done.EventID)
	_ = job.newest().Ack() // if lost, it is redelivered
}

func (s *subscription) wasDealt(event string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.dealt[event]
	return ok
}

// deal remembers an acked job, in place of the oldest if there are maxDealt.
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

// hold registers a job whose handler is about to run. fresh is false if the handler is already
// running.
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

// failedLevel is lower for handlers that failed because ctx ended.
func failedLevel(ctx context.Context) slog.Level {
	if ctx.Err() != nil {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// extend extends the ack deadline while the handler runs, so that NATS does not redeliver the job.
func (h *heldJob) extend() (stop func()) {
	tick, end := time.NewTicker(ackWait/3), make(chan struct{})
	var extending sync.WaitGroup
	extending.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = h.newest().InProgress() // if lost, the next one is still in time
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

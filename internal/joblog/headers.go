package joblog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// Headers reads the headers of each job's last event, and of all later events, in log order.
type Headers struct {
	b        *broker.Broker
	consumer jetstream.Consumer
	// LogCreated is the creation time of the log.
	LogCreated time.Time
}

// Headers returns a reader for the headers of the log. After an interruption, the reader gets the
// events that it missed, even if the log was replaced.
func (l *Log) Headers(ctx context.Context) (*Headers, error) {
	h := &Headers{b: l.b}
	err := l.b.RetryUntilLeader(ctx, "read the headers of the log", func(ctx context.Context) error {
		s, err := l.b.Stream(ctx, l.b.Names().Tasks())
		if err != nil {
			return err
		}
		h.LogCreated = s.CachedInfo().Created
		h.consumer, err = l.b.JetStream().OrderedConsumer(ctx, l.b.Names().Tasks(), jetstream.OrderedConsumerConfig{
			FilterSubjects:    []string{l.b.Names().TaskPattern()},
			DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
			HeadersOnly:       true,
			InactiveThreshold: 30 * time.Second,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read log headers: %w", err)
	}
	return h, nil
}

// Empty reports whether the log had no jobs when Headers was called.
func (h *Headers) Empty() bool { return h.consumer.CachedInfo().NumPending == 0 }

// Each calls f for each event until stop is called. For a message that is not an event, f gets a
// summary with only the sequence. Each calls caughtUp after the events that the log had at the
// start, and possibly again later. trouble receives errors from which the consumer recovers.
func (h *Headers) Each(f func(Summary), caughtUp func(), trouble func(error)) (stop func(), err error) {
	if h.Empty() {
		caughtUp()
	}
	consuming, err := h.consumer.Consume(func(m jetstream.Msg) {
		s, remaining := h.summary(m)
		f(s)
		if remaining == 0 {
			caughtUp()
		}
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { trouble(err) }))
	if err != nil {
		return nil, fmt.Errorf("read log headers: %w", err)
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
	}, nil
}

// summary returns the summary of a message and the number of messages after it. The summary has no
// name if the message is not a job event. If the message is part of a batch, summary waits until
// the batch is synced, so that lists do not show events that a power failure can still revert. If
// the batch gets no answer, the disk has failed. summary then accepts the message anyway, because
// no decisions are based on lists.
func (h *Headers) summary(m jetstream.Msg) (s Summary, remaining uint64) {
	h.b.Synced(h.b.Names().Tasks(), m.Headers())
	meta, err := m.Metadata()
	if err != nil {
		return s, 1 // not from the log
	}
	name, err := h.b.Names().ParseTask(m.Subject())
	if err != nil {
		return Summary{Seq: meta.Sequence.Stream}, meta.NumPending
	}
	return storedSummary(name, m.Headers(), meta.Sequence.Stream), meta.NumPending
}

// End is the position of the log's leader.
type End struct {
	LogCreated time.Time
	Seq        uint64 // sequence of the last message, which may not be a job event
	First      uint64 // sequence of the oldest message
}

// End reads the position of the log's leader.
func (l *Log) End(ctx context.Context) (End, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return End{}, err
	}
	i := s.CachedInfo()
	return End{LogCreated: i.Created, Seq: i.State.LastSeq, First: i.State.FirstSeq}, nil
}

// LastEvent returns the sequence of the last event of any job, or 0. The read transfers the event's
// body.
func (l *Log) LastEvent(ctx context.Context) (uint64, error) {
	m, err := l.b.Last(ctx, l.b.Names().Tasks(), l.b.Names().TaskPattern())
	if errors.Is(err, broker.ErrNoMessage) {
		return 0, nil
	}
	return m.Seq, err
}

// EachLastEvent calls f for the last event of every job in the log and returns. It reads all
// headers from one replica of the stream. If that replica lags, f gets an earlier event of a job,
// and then those later events that arrive in time.
func (l *Log) EachLastEvent(ctx context.Context, f func(Summary)) error {
	h, err := l.Headers(ctx)
	if err != nil || h.Empty() {
		return err
	}
	all, err := h.consumer.Messages()
	if err != nil {
		return fmt.Errorf("read the last event of every job: %w", err)
	}
	defer all.Stop()
	for {
		m, err := all.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read the last event of every job: %w", err)
		}
		s, remaining := h.summary(m)
		if s.Name.ID != "" {
			f(s)
		}
		if remaining == 0 {
			return nil
		}
	}
}

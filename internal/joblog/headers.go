package joblog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// Headers are the headers of the last event of every job that the log has, and of all that
// follow, in the order of the log.
type Headers struct {
	b        *broker.Broker
	consumer jetstream.Consumer
	// LogCreated is when the log was created that is read.
	LogCreated time.Time
}

// Headers begins to read the headers of the log, which ends with ctx. A reader that was away
// for a while is given what it missed, also from another log where this one was lost.
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
		return nil, fmt.Errorf("the headers of the log: %w", err)
	}
	return h, nil
}

// Empty reports whether the log had no job when the reading began.
func (h *Headers) Empty() bool { return h.consumer.CachedInfo().NumPending == 0 }

// Each tells f of each event until stop is called, and of a message that is none by its
// sequence alone, without a name. caughtUp is called when f has been told of all that the log
// had, and perhaps more than once. trouble hears what the reading repairs itself.
func (h *Headers) Each(f func(Notice), caughtUp func(), trouble func(error)) (stop func(), err error) {
	if h.Empty() {
		caughtUp()
	}
	consuming, err := h.consumer.Consume(func(m jetstream.Msg) {
		n, left := h.notice(m)
		f(n)
		if left == 0 {
			caughtUp()
		}
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { trouble(err) }))
	if err != nil {
		return nil, fmt.Errorf("the headers of the log: %w", err)
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
	}, nil
}

// notice is what a message without its data says, and how many the log has behind it. One
// that is no event of a job has no name. It waits for an event that is being stored, so that no
// list says what a cut of the power takes back. One whose batch has no answer is passed on all
// the same: its disk has failed, and the readers of a list decide nothing by it.
func (h *Headers) notice(m jetstream.Msg) (n Notice, left uint64) {
	h.b.Settled(h.b.Names().Tasks(), m.Headers())
	meta, err := m.Metadata()
	if err != nil {
		return n, 1 // it is not of the log
	}
	name, err := h.b.Names().ParseTask(m.Subject())
	if err != nil {
		return Notice{Seq: meta.Sequence.Stream}, meta.NumPending
	}
	return storedNotice(name, m.Headers(), meta.Sequence.Stream), meta.NumPending
}

// End is how far the log is, as its leader says.
type End struct {
	LogCreated time.Time
	Seq        uint64 // of the last message, which may be no event of a job
	First      uint64 // sequence of the oldest message
}

// End reads how far the log is.
func (l *Log) End(ctx context.Context) (End, error) {
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return End{}, err
	}
	i := s.CachedInfo()
	return End{LogCreated: i.Created, Seq: i.State.LastSeq, First: i.State.FirstSeq}, nil
}

// LastEvent reads the sequence of the last event of any job, 0 where there is none. It costs
// the event's body.
func (l *Log) LastEvent(ctx context.Context) (uint64, error) {
	m, err := l.b.Last(ctx, l.b.Names().Tasks(), l.b.Names().TaskPattern())
	if errors.Is(err, broker.ErrNoMessage) {
		return 0, nil
	}
	return m.Seq, err
}

// NotifyAll tells f of the last event of every job that the log has, and returns when it
// has. It reads the headers of them all. They are those that the replica has which reads
// them: one that is behind tells of an earlier event of a job, and of those after it as far
// as they come meanwhile.
func (l *Log) NotifyAll(ctx context.Context, f func(Notice)) error {
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
		n, left := h.notice(m)
		if n.Name.ID != "" {
			f(n)
		}
		if left == 0 {
			return nil
		}
	}
}

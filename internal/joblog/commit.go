package joblog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	inFlightWait = 5 * time.Millisecond
	answerWait   = 100 * time.Millisecond
	maxWait      = time.Second
)

// Commit stores e if last is still the last sequence of the job's log. If last is 0, the log must
// be empty. Commit returns the stored entry, a *LostError with the winner, or ErrFull. If ctx ends
// before the outcome is known, it returns ErrUncertain and the event, whose nonce identifies it
// later.
//
// If the broker reports a duplicate or a conflict, the event is stored only if the last message has
// its nonce. The broker's answer is not enough, because for a repeated write, a cluster answers
// "duplicate" and a single node "wrong sequence".
func (l *Log) Commit(ctx context.Context, e task.Event, last uint64) (Entry, error) {
	e.Nonce = nuid.Next()
	before := e.Job.GetExecution().GetWriter()
	e = e.By(l.writer, e.Job.GetExecution().GetDeliveries())
	m, err := l.enc.Event(traced(ctx, e), e)
	if err != nil {
		return Entry{}, err
	}
	m.Header[jetstream.MsgIDHeader] = m.Header[subject.HeaderCEID]
	begin := time.Now()
	entry, err := l.write(ctx, e, m, last)
	if errors.Is(err, ErrUncertain) {
		return Entry{Event: e}, err
	}
	if err != nil {
		return Entry{}, err
	}
	if entry.Terminal() {
		entry.message = m
	}
	if entry.Version() == 1 || entry.Terminal() {
		l.hub.commit(storedSummary(entry.Name(), m.Header, entry.Seq))
	}
	l.measure(entry, time.Since(begin))
	l.notify(before, e)
	return entry, nil
}

// CommitOrCurrent is like Commit, but if another writer committed first, it returns the winner's
// event instead of an error.
func (l *Log) CommitOrCurrent(ctx context.Context, e task.Event, last uint64) (Entry, error) {
	entry, err := l.Commit(ctx, e, last)
	if lost, ok := errors.AsType[*LostError](err); ok {
		return lost.Current, nil
	}
	return entry, err
}

// traced returns ctx with the trace of the job, because another caller, an operator or another
// replica may write the event.
func traced(ctx context.Context, e task.Event) context.Context {
	x := e.Job.GetExecution()
	return telemetry.Within(ctx, x.GetTraceparent(), x.GetTracestate())
}

// write sends m, unchanged, until the outcome is known.
func (l *Log) write(ctx context.Context, e task.Event, m *nats.Msg, last uint64) (Entry, error) {
	wait := time.Duration(0)
	sent := false // an unanswered write may be stored
	for {
		ack, err := l.b.PublishExpecting(ctx, laneOf(e), m, last)
		switch {
		case err == nil && !ack.Duplicate:
			return Entry{Event: e, Seq: ack.Seq}, nil
		case err == nil, errors.Is(err, broker.ErrWrongSequence):
			return l.resolve(ctx, e, last, err)
		case errors.Is(err, broker.ErrInFlight):
			l.metrics.CAS(telemetry.CASInFlight)
			if entry, decided, err := l.compare(ctx, e, last); decided {
				return entry, err
			}
			wait = min(max(2*wait, inFlightWait), maxWait)
		case errors.Is(err, broker.ErrFull):
			return Entry{}, l.givenUp(e, sent, errors.Join(ErrFull, err))
		case errors.Is(err, broker.ErrNoAnswer), errors.Is(err, broker.ErrUnavailable):
			sent = sent || errors.Is(err, broker.ErrNoAnswer)
			l.metrics.CAS(telemetry.CASNoAnswer)
			wait = min(max(2*wait, answerWait), maxWait)
		default:
			return Entry{}, l.givenUp(e, sent, err)
		}
		if broker.Wait(ctx, wait) != nil {
			return Entry{}, l.givenUp(e, sent, err)
		}
	}
}

// laneOf returns the lane for the events of a job.
func laneOf(e task.Event) broker.Lane {
	if chat, ok := e.Job.(*genbusv1.Chat); ok && chat.GetInline() {
		return broker.Inline
	}
	return broker.Jobs
}

func (l *Log) givenUp(e task.Event, sent bool, err error) error {
	if sent {
		err = errors.Join(ErrUncertain, err)
	}
	return fmt.Errorf("commit version %d of %s: %w", e.Version(), e.Job.GetId(), err)
}

// resolve reads from the leader after the broker has reported a conflict or a duplicate. It retries
// until a read succeeds, because until then, a lost race and a lost answer look the same.
func (l *Log) resolve(ctx context.Context, e task.Event, last uint64, refusal error) (Entry, error) {
	if refusal == nil {
		l.metrics.CAS(telemetry.CASDuplicate)
	}
	for wait := answerWait; ; wait = min(2*wait, maxWait) {
		entry, decided, err := l.compare(ctx, e, last)
		if decided {
			return entry, err
		}
		if broker.Wait(ctx, wait) != nil {
			return Entry{}, fmt.Errorf("commit version %d of %s: %w", e.Version(), e.Job.GetId(), errors.Join(ErrUncertain, err))
		}
	}
}

// compare checks whether the nonce of the last message is that of e or another writer's. It returns
// false if the read failed or the log has not advanced.
func (l *Log) compare(ctx context.Context, e task.Event, last uint64) (Entry, bool, error) {
	current, err := l.Get(ctx, Entry{Event: e}.Name())
	switch {
	case errors.Is(err, ErrNotFound) && last > 0:
		// The whole log of the job is gone, due to MaxAge or an operator.
		return Entry{}, true, err
	case err != nil:
		return Entry{}, false, err
	case current.Seq <= last: // possibly read from a leader that was just replaced
		return Entry{}, false, nil
	case current.Nonce == e.Nonce:
		return current, true, nil
	default:
		l.metrics.CAS(telemetry.CASLost)
		return Entry{}, true, &LostError{Current: current}
	}
}

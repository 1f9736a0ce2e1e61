package joblog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// EndLevel returns the level at which to log a job's end. It is Warn if the end leaves a dead
// letter for operators. letter is true if there is a dead letter that the end itself does not
// imply.
func (e Entry) EndLevel(letter bool) slog.Level {
	if letter || task.LeavesDeadLetter(e.Job) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// EndAttrs returns the log attributes of a job's end.
func (e Entry) EndAttrs() []any {
	return telemetry.JobAttrs(e.Name(), e.Job.GetExecution().GetRoute(), "status", task.StatusWord(e.Job.GetStatus()), "code", e.Job.GetError().GetCode())
}

// Finish stores the feed copy of a terminal event and, concurrently, the job's usage. The writer of
// the terminal event calls it, and every consumer calls it before it acks. Messages that are
// already stored remain unchanged.
func (l *Log) Finish(ctx context.Context, e Entry) error {
	ctx = traced(ctx, e.Event)
	usage, err := l.enc.Usage(ctx, e.Event)
	if err != nil {
		return err
	}
	if usage == nil {
		return l.putDone(ctx, e)
	}
	stored := make(chan error, 1)
	go func() { stored <- l.putUsage(ctx, e, usage) }()
	err = l.putDone(ctx, e)
	return errors.Join(err, <-stored)
}

func (l *Log) putDone(ctx context.Context, e Entry) error {
	feedCopy, err := l.feedCopy(ctx, e)
	if err != nil {
		return err
	}
	feedCopy.Header[jetstream.MsgIDHeader] = []string{e.ID() + ".done"}
	begin := time.Now()
	if err := l.putOnce(ctx, laneOf(e.Event), l.b.Names().Tasks(), feedCopy); err != nil {
		return fmt.Errorf("finish %s: %w", e.Job.GetId(), err)
	}
	l.metrics.EventPublished(telemetry.PublishedDone, time.Since(begin))
	return nil
}

// feedCopy returns the feed message of a job's end, which has the same contents as the logged
// message.
func (l *Log) feedCopy(ctx context.Context, e Entry) (*nats.Msg, error) {
	if e.message == nil {
		return l.enc.Done(ctx, e.Event)
	}
	n := e.Name()
	m := &nats.Msg{
		Subject: l.b.Names().Done(n.Kind, n.Tenant, task.StatusWord(e.Job.GetStatus()), n.ID),
		Header:  maps.Clone(e.message.Header), Data: e.message.Data,
	}
	return m, nil
}

func (l *Log) putUsage(ctx context.Context, e Entry, usage *nats.Msg) error {
	usage.Header[jetstream.MsgIDHeader] = []string{e.ID() + ".usage"}
	if err := l.putOnce(ctx, laneOf(e.Event), l.b.Names().UsageStream(), usage); err != nil {
		return fmt.Errorf("finish %s: usage: %w", e.Job.GetId(), err)
	}
	return nil
}

// putOnce stores a message on its subject exactly once, even with concurrent callers. A stored
// message with another ce-id belongs to an earlier job that was erased, and putOnce stores the new
// message after it.
func (l *Log) putOnce(ctx context.Context, lane broker.Lane, stream string, m *nats.Msg) error {
	last := uint64(0)
	for wait := answerWait; ; wait = min(2*wait, maxWait) {
		_, err := l.b.PublishExpecting(ctx, lane, m, last)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, broker.ErrWrongSequence):
			there, readErr := l.b.Last(ctx, stream, m.Subject)
			if readErr == nil && header(there.Header, subject.HeaderCEID) == header(m.Header, subject.HeaderCEID) {
				return nil
			}
			if last, err = there.Seq, readErr; errors.Is(readErr, broker.ErrNoMessage) {
				err = nil // just removed
			}
		case errors.Is(err, broker.ErrInFlight), errors.Is(err, broker.ErrNoAnswer), errors.Is(err, broker.ErrUnavailable):
		default:
			return err
		}
		if broker.Wait(ctx, wait) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/subject"
)

type admin struct {
	reads *reader
	js    jetstream.JetStream
	names subject.Space
	log   *slog.Logger
	clock *clock.Clock
}

// JetStream returns the JetStream context of the connection.
func (a *admin) JetStream() jetstream.JetStream { return a.js }

// Clock returns this replica's clock. Streams.Ensure, Ready and each reconnect compare it with the
// clock of the server that leads the job log.
func (a *admin) Clock() *clock.Clock { return a.clock }

// Stream looks up a stream and its state, within ReadTimeout. The client library's own timeout
// applies only to contexts without a deadline, and a caller's deadline may be minutes away. Errors
// other than jetstream.ErrStreamNotFound wrap ErrUnavailable.
func (a *admin) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := lookup(ctx, "stream "+name)
	defer cancel()
	down, _ := a.reads.link.state.now()
	s, err := a.js.Stream(ctx, name)
	if err == nil {
		a.reads.unreplicated.learn(down, s.CachedInfo())
	}
	return s, lookupError(ctx, "stream "+name, err, jetstream.ErrStreamNotFound)
}

// Consumer looks up a durable consumer and its state, like Stream.
func (a *admin) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	what := "consumer " + name + " of " + stream
	ctx, cancel := lookup(ctx, what)
	defer cancel()
	cons, err := a.js.Consumer(ctx, stream, name)
	return cons, lookupError(ctx, what, err, jetstream.ErrConsumerNotFound)
}

func (a *admin) streamInfo(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	s, err := a.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// timedInfo is like streamInfo, but for the job log it also measures the clock, because the answer
// carries the time of the stream's leader.
func (a *admin) timedInfo(ctx context.Context, name string) (info *jetstream.StreamInfo, err error) {
	if name != a.names.Tasks() {
		return a.streamInfo(ctx, name)
	}
	err = a.clock.Measure(func() (time.Time, error) {
		if info, err = a.streamInfo(ctx, name); err != nil {
			return time.Time{}, err
		}
		return info.TimeStamp, nil
	})
	return info, err
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

// QueuedJobs counts the work items. It never misses a job that is being dispatched, because
// dispatching stores the job in GENBUS_WORK before it removes it from GENBUS_WAIT, and QueuedJobs
// reads GENBUS_WAIT first. It may count such a job twice.
func (a *admin) QueuedJobs(ctx context.Context) (jobs int64, err error) {
	for _, name := range []string{a.names.Wait(), a.names.Work()} {
		info, err := a.streamInfo(ctx, name)
		if err != nil {
			return 0, err
		}
		jobs += int64(info.State.Msgs)
	}
	return jobs, nil
}

package joblog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unique"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// fillAgain is the wait after a log that could not be read from its beginning.
const fillAgain = 5 * time.Second

// start fills the index until ctx ends. The returned channel is closed then.
func (x *index) start(ctx context.Context, b *broker.Broker, log *slog.Logger) (<-chan struct{}, error) {
	consuming, err := x.fill(ctx, b, log)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
			case <-x.again:
			}
			if consuming != nil {
				consuming.Stop()
				<-consuming.Closed()
			}
			if ctx.Err() != nil {
				return
			}
			if consuming, err = x.fill(ctx, b, log); err != nil {
				log.Warn("the list of jobs cannot be read", "error", err)
				_ = broker.Wait(ctx, fillAgain) // the loop looks at ctx
				x.ring()
			}
		}
	}()
	return done, nil
}

// fill reads the log from its beginning into an empty index.
func (x *index) fill(ctx context.Context, b *broker.Broker, log *slog.Logger) (jetstream.ConsumeContext, error) {
	var c jetstream.Consumer
	err := b.RetryUntilLeader(ctx, "begin the list", func(ctx context.Context) error {
		s, err := b.Stream(ctx, b.Names().Tasks())
		if err != nil {
			return err
		}
		x.empty(s.CachedInfo().Created)
		c, err = lastEvents(ctx, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list index: %w", err)
	}
	consuming, err := c.Consume(func(m jetstream.Msg) { x.see(b.Names(), m) }, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		log.Debug("list index: consumer", "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("list index: %w", err)
	}
	return consuming, nil
}

// lastEvents delivers the headers of the last event of every job, and of all that follow.
func lastEvents(ctx context.Context, b *broker.Broker) (jetstream.Consumer, error) {
	return b.JetStream().OrderedConsumer(ctx, b.Names().Tasks(), jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{b.Names().TaskPattern()},
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		HeadersOnly:       true,
		InactiveThreshold: 30 * time.Second,
	})
}

func (x *index) see(names subject.Space, m jetstream.Msg) {
	n, err := names.ParseTask(m.Subject())
	if err != nil {
		return
	}
	created, err := time.Parse(time.RFC3339Nano, header(m.Headers(), subject.HeaderCreatedAt))
	if err != nil {
		return
	}
	// Clones: values are parts of the whole message's memory.
	n.ID = strings.Clone(n.ID)
	status := unique.Make(strings.Clone(header(m.Headers(), subject.HeaderStatus))).Value()
	r := row{created: created.UnixNano(), id: n.ID, status: status}
	if isUnfinished(status, header(m.Headers(), subject.HeaderVersion)) {
		r.unfinished = storedBytes(m)
	}
	x.put(n, r)
	x.observe(notice(n, m.Headers()))
}

// empty forgets all jobs. What is read from now on is of the log that was created then.
func (x *index) empty(created time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lists, x.size, x.created = map[listKey]*list{}, 0, created
}

// compare has the index read the log from its beginning again if it is not the one that is
// being read: a consumer of one that was lost goes on where that one ended, and the jobs
// that were in it would count for ever.
func (x *index) compare(created time.Time) {
	x.mu.RLock()
	same := x.created.Equal(created)
	x.mu.RUnlock()
	if !same {
		x.ring()
	}
}

func (x *index) ring() {
	select {
	case x.again <- struct{}{}:
	default:
	}
}

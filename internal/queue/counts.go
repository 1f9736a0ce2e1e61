package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// listAgain is how long durable consumers are not listed for counts after no answer came.
const listAgain = 5 * time.Minute

// errNotListed says that the consumers are not listed for a while, as no answer came.
var errNotListed = errors.New("could not list consumers")

// unanswered reports whether a list failed as no answer came, and nothing else is known to be
// wrong: so it is where a user of NATS may not list consumers. Any other error passes.
func (q *Queue) unanswered(ctx context.Context, err error) bool {
	return broker.CutOff(err) && ctx.Err() == nil && q.b.Trouble() == nil
}

// consumers lists those of a stream, by name, for counts, which are made too often to wait for
// an answer that does not come.
func (q *Queue) consumers(ctx context.Context, stream string) (map[string]*jetstream.ConsumerInfo, error) {
	q.mu.Lock()
	refused := time.Now().Before(q.noList)
	q.mu.Unlock()
	if refused {
		return nil, errNotListed
	}
	all, err := q.b.Consumers(ctx, stream)
	if q.unanswered(ctx, err) {
		q.mu.Lock()
		q.noList = time.Now().Add(listAgain)
		q.mu.Unlock()
	}
	return all, err
}

// Count reads what each route of this process has, 256 routes with one request, and returns
// those of which the broker did not say it: a durable consumer of theirs is gone, or does not
// answer, or none can be listed. They stay as they were. The error is that of the list; where
// it is not tried again for a while, there is none.
func (q *Queue) Count(ctx context.Context) (uncounted map[*Route]bool, err error) {
	_, uncounted, err = q.count(ctx)
	return uncounted, err
}

// count is Count, and returns the durable consumers of the ready jobs too, by name.
func (q *Queue) count(ctx context.Context) (work map[string]*jetstream.ConsumerInfo, uncounted map[*Route]bool, err error) {
	type read struct {
		counted int64
		update  func(reading, time.Time)
	}
	reads := map[*Route]read{}
	for _, r := range q.all() {
		reads[r] = read{r.counted.Load(), r.window.beginRead()}
	}
	// The backlog first: a job that dispatches meanwhile is counted twice, and not left out.
	wait, err := q.consumers(ctx, q.b.Names().Wait())
	if err == nil {
		work, err = q.consumers(ctx, q.b.Names().Work())
	}
	uncounted = map[*Route]bool{}
	for r, read := range reads {
		if work[r.durable] == nil || wait[r.durable] == nil {
			uncounted[r] = true
			continue
		}
		r.learn(work[r.durable], wait[r.durable], read.counted, read.update)
	}
	if errors.Is(err, errNotListed) {
		err = nil
	}
	return work, uncounted, err
}

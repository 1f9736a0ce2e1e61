package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// listAgain is the time after an unanswered list request before consumers are listed again.
const listAgain = 5 * time.Minute

// errNotListed means that listing consumers is suspended (see listAgain).
var errNotListed = errors.New("could not list consumers")

// unanswered reports whether err means that a list request got no answer although no other problem
// is known. That happens if the NATS user may not list consumers. Other errors are temporary.
func (q *Queue) unanswered(ctx context.Context, err error) bool {
	return broker.CutOff(err) && ctx.Err() == nil && q.b.Trouble() == nil
}

// consumers lists the consumers of a stream by name. If a list request gets no answer, later calls
// return errNotListed for listAgain, because they are too frequent to wait for an answer each time.
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

// Count updates the counts of all routes that this process has used, 256 routes per request. It
// returns the routes whose durable consumers are missing, do not answer or cannot be listed. Their
// counts do not change. err is the error from listing the consumers. It is nil while listing is
// suspended.
func (q *Queue) Count(ctx context.Context) (uncounted map[*Route]bool, err error) {
	_, uncounted, err = q.count(ctx)
	return uncounted, err
}

// count is like Count, but also returns the durable consumers of the ready jobs by name.
func (q *Queue) count(ctx context.Context) (work map[string]*jetstream.ConsumerInfo, uncounted map[*Route]bool, err error) {
	type read struct {
		counted int64
		update  func(reading, time.Time)
	}
	reads := map[*Route]read{}
	for _, r := range q.all() {
		reads[r] = read{r.counted.Load(), r.window.beginRead()}
	}
	// The backlog comes first, so that a job that is dispatched in between is counted twice rather
	// than missed.
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

package queue

import (
	"context"
	"time"
)

// Count reads what each route of this process has, 256 routes with one request, and returns
// those of which the broker did not say it: a durable consumer of theirs is gone, or does not
// answer. They stay as they were.
func (q *Queue) Count(ctx context.Context) (uncounted map[*Route]bool, err error) {
	routes := q.all()
	uncounted = q.All()
	updates := make([]func(int), len(routes))
	for i, r := range routes {
		updates[i] = r.window.beginRead()
	}
	begin := time.Now()
	// The backlog first: a job that moves meanwhile is counted twice, and not left out.
	wait, err := q.b.Consumers(ctx, q.b.Names().Wait())
	if err != nil {
		return uncounted, err
	}
	work, err := q.b.Consumers(ctx, q.b.Names().Work())
	if err != nil {
		return uncounted, err
	}
	for i, r := range routes {
		if work[r.durable] != nil && wait[r.durable] != nil {
			r.learn(work[r.durable], wait[r.durable], begin, updates[i])
			delete(uncounted, r)
		}
	}
	return uncounted, nil
}

// All is the routes of this process.
func (q *Queue) All() map[*Route]bool {
	all := map[*Route]bool{}
	for _, r := range q.all() {
		all[r] = true
	}
	return all
}

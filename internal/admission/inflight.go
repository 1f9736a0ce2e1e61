package admission

import (
	"context"
	"sync"
)

// inflight counts the admissions under way. The zero value has none. It is safe for
// concurrent use.
type inflight struct {
	mu  sync.Mutex
	now *sync.WaitGroup // of those that began since the last call of wait
}

// begin counts one until end is called.
func (i *inflight) begin() (end func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now == nil {
		i.now = new(sync.WaitGroup)
	}
	i.now.Add(1)
	return i.now.Done
}

// wait returns when all that have begun have ended, or ctx ends, whose cause is the error.
// Those that begin meanwhile neither wait nor are waited for.
func (i *inflight) wait(ctx context.Context) error {
	i.mu.Lock()
	before := i.now
	i.now = nil
	i.mu.Unlock()
	if before == nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		before.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// WaitInflight waits until the admissions under way have ended, decideWithin at most, or
// ctx ends, whose cause is the error. After it nothing is published for a route that was
// removed before.
func (a *Admission) WaitInflight(ctx context.Context) error { return a.inflight.wait(ctx) }

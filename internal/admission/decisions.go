package admission

import (
	"context"
	"sync"
)

// decisions are the admissions in hand. The zero value has none. It is safe for
// concurrent use.
type decisions struct {
	mu  sync.Mutex
	now *sync.WaitGroup // of those that began since the last call of over
}

// begin counts one until end is called.
func (d *decisions) begin() (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil {
		d.now = new(sync.WaitGroup)
	}
	d.now.Add(1)
	return d.now.Done
}

// over waits until all that have begun have ended, or ctx ends, whose cause is the error.
// Those that begin meanwhile neither wait nor are waited for.
func (d *decisions) over(ctx context.Context) error {
	d.mu.Lock()
	before := d.now
	d.now = nil
	d.mu.Unlock()
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

// Decided waits until the admissions in hand are over, decideWithin at most, or ctx ends,
// whose cause is the error. After it nothing is published for a route that was removed
// before.
func (a *Admission) Decided(ctx context.Context) error { return a.decisions.over(ctx) }

package operator

import (
	"context"
	"sync"
	"time"
)

// shared builds a value on demand, and reuses it. All callers share the value or its error.
type shared[T any] struct {
	// every is how long a value is reused, or at most a second if there was an error. within bounds
	// the time to build one.
	every, within time.Duration
	build         func(context.Context) (T, error)

	mu     sync.Mutex
	latest *snapshot[T]
}

// snapshot is one shared value.
type snapshot[T any] struct {
	began time.Time
	done  chan struct{} // closed once the fields below are set
	out   T
	err   error
}

// get builds a value, unless the latest one is recent or still being built. It does not use a value
// from before the last call of Outdate. Callers must not change the value.
func (p *shared[T]) get(ctx context.Context) (T, error) {
	s, first := p.join(time.Now())
	if first {
		// Other callers may wait for the same value, so the end of this call must not stop it.
		making, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.within)
		s.out, s.err = p.build(making)
		cancel()
		close(s.done)
		return s.out, s.err
	}
	select {
	case <-s.done:
		return s.out, s.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// Outdate makes the next caller build a new value, so that an operator who has paused a route sees
// the pause.
func (p *shared[T]) Outdate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = nil
}

// join returns a recent snapshot or the one being built. If first is set, the caller must build it.
func (p *shared[T]) join(now time.Time) (s *snapshot[T], first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s = p.latest; s != nil {
		select {
		case <-s.done:
			if age := now.Sub(s.began); age < p.every && (s.err == nil || age < overviewEvery) {
				return s, false
			}
		default:
			return s, false
		}
	}
	p.latest = &snapshot[T]{began: now, done: make(chan struct{})}
	return p.latest, true
}

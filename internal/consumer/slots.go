package consumer

import (
	"context"
	"sync"
)

// slots limits how many messages of one durable consumer this process holds. Reserve slots before
// fetching, because AckWait runs while a fetched message waits for a slot.
type slots struct {
	mu    sync.Mutex
	all   int           // total
	free  int           // negative after a resize to fewer slots than are in use
	freed chan struct{} // holds a token if free may have increased

	releaseOne func() // allocated once; each held job calls it once
}

func newSlots(n int) *slots {
	s := &slots{all: n, free: n, freed: make(chan struct{}, 1)}
	s.releaseOne = func() { s.release(1) }
	return s
}

// reserve waits until a slot is free. It then reserves up to limit slots and returns their number.
func (s *slots) reserve(ctx context.Context, limit int) (int, error) {
	for {
		s.mu.Lock()
		n := max(min(s.free, limit), 0)
		s.free -= n
		s.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-s.freed:
		}
	}
}

func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// resize changes the total. Slots in use are not affected.
func (s *slots) resize(n int) {
	s.mu.Lock()
	more := n - s.all
	s.all = n
	s.mu.Unlock()
	s.release(more)
}

package consumer

import (
	"context"
	"sync"
)

// slots bounds the messages that one route of this process holds. Reserve a slot before fetching: a
// fetched message that waits uses up its AckWait.
type slots struct {
	mu    sync.Mutex
	all   int           // total
	free  int           // below zero after a resize below the slots in use
	freed chan struct{} // has a token if free may have grown

	releaseOne func() // created once for all held jobs; each calls it once
}

func newSlots(n int) *slots {
	s := &slots{all: n, free: n, freed: make(chan struct{}, 1)}
	s.releaseOne = func() { s.release(1) }
	return s
}

// reserve waits for at least one slot and takes up to limit.
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

// resize changes the total. Slots in use stay in use.
func (s *slots) resize(n int) {
	s.mu.Lock()
	more := n - s.all
	s.all = n
	s.mu.Unlock()
	s.release(more)
}

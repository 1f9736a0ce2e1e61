package consumer

import (
	"context"
	"sync"
)

// slots bounds what one route of this process holds. A slot is reserved before a
// message is fetched, because a fetched message that waits burns its AckWait.
type slots struct {
	mu    sync.Mutex
	all   int           // that there are
	free  int           // below zero after there were made fewer than are taken
	freed chan struct{} // has a token when free may have grown

	releaseOne func() // made once, as each held job has it; a job calls it once
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

// resize makes another number of slots. Those that are taken stay so.
func (s *slots) resize(n int) {
	s.mu.Lock()
	more := n - s.all
	s.all = n
	s.mu.Unlock()
	s.release(more)
}

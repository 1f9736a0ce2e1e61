package video

import (
	"context"
	"sync"
	"sync/atomic"
)

// pollSlots bounds the concurrent polls of one route in this process, so that an upstream that
// hangs delays polls but does not use up the file descriptors. Slots are granted in order.
type pollSlots struct {
	mu      sync.Mutex
	free    int
	waiting []func() bool
}

func newPollSlots(n int) *pollSlots { return &pollSlots{free: n} }

// acquire takes a slot. Without a free one it returns false and calls granted once a slot is taken
// for the caller. granted must not block, and returns whether the slot is still wanted.
func (s *pollSlots) acquire(granted func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		s.free--
		return true
	}
	s.waiting = append(s.waiting, granted)
	return false
}

// acquireWait is acquire for a caller that waits. It fails with the cause of ctx.
func (s *pollSlots) acquireWait(ctx context.Context) error {
	slot := make(chan struct{})
	var decided atomic.Bool
	if s.acquire(func() bool {
		wanted := decided.CompareAndSwap(false, true)
		if wanted {
			close(slot)
		}
		return wanted
	}) {
		return nil
	}
	select {
	case <-slot:
		return nil
	case <-ctx.Done():
		if !decided.CompareAndSwap(false, true) {
			s.release() // it was granted at the same time
		}
		return context.Cause(ctx)
	}
}

// release passes a slot to the first caller that still wants one.
func (s *pollSlots) release() {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.waiting = nil // free its memory
			s.free++
			s.mu.Unlock()
			return
		}
		granted := s.waiting[0]
		s.waiting[0], s.waiting = nil, s.waiting[1:]
		s.mu.Unlock()
		if granted() {
			return
		}
	}
}

package video

import (
	"context"
	"sync"
	"sync/atomic"
)

// pollSlots bounds the concurrent polls of one route in this process. If an upstream hangs, polls
// are delayed, but they do not exhaust the file descriptors. Slots are granted in the order in
// which they were requested.
type pollSlots struct {
	mu      sync.Mutex
	free    int
	waiting []func() bool
}

func newPollSlots(n int) *pollSlots { return &pollSlots{free: n} }

// acquire reserves a slot if one is free. Otherwise it returns false, and granted is called when a
// slot has been reserved for the caller. granted must not block. It returns false if the slot is no
// longer needed.
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

// acquireWait waits for a slot. If ctx ends first, it returns the cause of ctx.
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

// release passes the slot to the first waiting caller that still needs it, or frees the slot.
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

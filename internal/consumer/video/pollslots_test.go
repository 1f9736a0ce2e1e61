package video

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestPollSlots proves that slots are granted in order and that a caller that gives up gets none.
func TestPollSlots(t *testing.T) {
	t.Parallel()
	s := newPollSlots(1)
	var order []int
	for i := range 4 {
		taken := s.acquire(func() bool {
			order = append(order, i)
			return i != 2 // no longer wanted
		})
		if taken != (i == 0) {
			t.Errorf("acquire %d: %v", i, taken)
		}
	}
	gone, end := context.WithCancelCause(t.Context())
	why := errors.New("why")
	end(why)
	if err := s.acquireWait(gone); !errors.Is(err, why) {
		t.Errorf("a wait whose context has ended: %v", err)
	}
	for _, want := range []int{1, 3, 3} {
		s.release()
		if last := len(order) - 1; order[last] != want {
			t.Errorf("after a release: %v", order)
		}
	}
	if s.free != 1 || len(order) != 3 {
		t.Errorf("%d slots are free, %v had one", s.free, order)
	}
}

// TestPollSlotsAreNeitherLostNorShared proves that concurrent waiters that give up lose or share no
// slot.
func TestPollSlotsAreNeitherLostNorShared(t *testing.T) {
	t.Parallel()
	const slots, callers = 3, 64
	s := newPollSlots(slots)
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range callers {
		ctx, end := context.WithCancel(t.Context())
		wg.Go(func() {
			for range 200 {
				if s.acquireWait(ctx) != nil {
					return
				}
				if n := taken.Add(1); n > slots {
					t.Errorf("%d slots are taken", n)
				}
				taken.Add(-1)
				s.release()
			}
		})
		if i%2 == 0 {
			wg.Go(end)
		} else {
			defer end()
		}
	}
	wg.Wait()
	if s.free != slots || len(s.waiting) != 0 {
		t.Errorf("%d slots are free, %d wait", s.free, len(s.waiting))
	}
}

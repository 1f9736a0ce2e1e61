package video

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestPollSlots: those that wait have the slots in order, one that gives up has none.
func TestPollSlots(t *testing.T) {
	t.Parallel()
	s := newPollSlots(1)
	var order []int
	for i := range 4 {
		taken := s.acquire(func() bool {
			order = append(order, i)
			return i != 2 // it is not wanted any more
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

// TestPollSlotsAreNeitherLostNorShared where many wait and give up at any moment.
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

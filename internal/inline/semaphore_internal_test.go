package inline

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// TestLaterStagesAreStoredFirst proves that permits go to the latest stage first, in order within a
// stage.
func TestLaterStagesAreStoredFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &semaphore{free: 1}
		if !s.acquire(t.Context(), stageBegin) {
			t.Fatal("there was a permit")
		}
		var group sync.WaitGroup
		var order []string
		for i, at := range []stage{stageBegin, stageBegin, stageFinish, stageEnd} {
			group.Go(func() {
				if s.acquire(t.Context(), at) {
					order = append(order, fmt.Sprint(at, i))
					s.release()
				}
			})
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if s.acquire(gone, stageFinish) {
			t.Error("a permit was given to one who has left")
		}
		s.release()
		group.Wait()
		if got := fmt.Sprint(order); got != "[2 2 1 3 0 0 0 1]" {
			t.Errorf("the order is %s", got)
		}
		if s.free != 1 {
			t.Errorf("%d permits are free", s.free)
		}
	})
}

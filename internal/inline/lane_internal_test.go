package inline

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
)

// TestLaterStagesAreStoredFirst when a place comes free, and those of one stage in order.
func TestLaterStagesAreStoredFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lane{free: 1}
		if !l.acquire(t.Context(), stageBegin) {
			t.Fatal("there was a place")
		}
		var group sync.WaitGroup
		var order []string
		for i, s := range []stage{stageBegin, stageBegin, stageFinish, stageEnd} {
			group.Go(func() {
				if l.acquire(t.Context(), s) {
					order = append(order, fmt.Sprint(s, i))
					l.release()
				}
			})
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if l.acquire(gone, stageFinish) {
			t.Error("a place was given to one who has left")
		}
		l.release()
		group.Wait()
		if got := fmt.Sprint(order); got != "[2 2 1 3 0 0 0 1]" {
			t.Errorf("the order is %s", got)
		}
		if l.free != 1 {
			t.Errorf("%d places are free", l.free)
		}
	})
}

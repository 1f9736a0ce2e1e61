package inline

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestChatsWaitOnceUntilEventsAreStored: what is given up makes room, and says nothing of those
// that come next.
func TestChatsWaitOnceUntilEventsAreStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{most: 1}
		waits := func(want time.Duration) {
			t.Helper()
			begin := time.Now()
			if b.awaitFor(t.Context(), time.Second) {
				t.Error("there was room")
			}
			if waited := time.Since(begin); waited != want {
				t.Errorf("waited %s, not %s", waited, want)
			}
		}
		b.add()
		waits(time.Second)
		waits(0)
		b.add()
		b.remove(false)
		waits(0)
		b.add()
		b.remove(true)
		waits(time.Second)
		b.remove(false)
		if !b.awaitFor(t.Context(), 0) || b.full() {
			t.Error("there is no room")
		}
	})
}

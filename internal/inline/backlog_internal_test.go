package inline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestChatsWaitOnceUntilEventsAreStored proves that after one full wait no chat waits until events
// are stored, and that events that are given up free capacity but do not count as stored.
func TestChatsWaitOnceUntilEventsAreStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{limit: 1}
		waits := func(want time.Duration) {
			t.Helper()
			begin := time.Now()
			if b.await(t.Context(), time.Second) {
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
		if !b.await(t.Context(), 0) || b.full() {
			t.Error("there is no room")
		}
	})
}

// TestADisconnectedCallerHasNoChatWait proves that a cancelled wait does not make the next chat
// wait after another chat has waited its full time.
func TestADisconnectedCallerHasNoChatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{limit: 1}
		b.add()
		caller, leave := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			b.await(caller, time.Minute)
		}()
		synctest.Wait() // it waits
		b.await(t.Context(), time.Second)
		leave()
		<-left
		begin := time.Now()
		if b.await(t.Context(), time.Second) {
			t.Error("there was room")
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("the next chat waited %s", waited)
		}
	})
}

package inline

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxBacklog is the number of ended chats with unstored events at which new chats start to wait.
const maxBacklog = 1024

// backlog counts ended chats whose events are not stored yet. While it is full, new chats wait
// before they begin. If events arrive faster than the broker can store them, this slows down
// callers before any events are dropped.
type backlog struct {
	limit int

	mu      sync.Mutex
	ended   int
	waiting []chan struct{} // of chats waiting to begin, in order of arrival
	closed  bool            // await no longer waits
	stalled bool            // no events have been stored since a chat waited its full time
}

// await waits up to timeout for capacity and reports whether there is any. Once a chat has waited
// its full time, later chats do not wait until the events of some chat have been stored.
func (b *backlog) await(ctx context.Context, timeout time.Duration) bool {
	b.mu.Lock()
	if b.ended < b.limit || b.closed {
		b.mu.Unlock()
		return true
	}
	if b.stalled {
		b.mu.Unlock()
		return false
	}
	room := make(chan struct{})
	b.waiting = append(b.waiting, room)
	b.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	callerLeft := false
	select {
	case <-room:
		return true
	case <-ctx.Done():
		callerLeft = true
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, room)
	if i < 0 { // capacity has just become free
		return true
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.stalled = b.stalled || !callerLeft
	return false
}

// full reports whether a new chat would have to wait.
func (b *backlog) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended >= b.limit
}

// add counts an ended chat. It never waits, because the chat was already admitted.
func (b *backlog) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended++
}

// remove removes a chat from the count once its events have been stored or dropped, and admits
// waiting chats.
func (b *backlog) remove(stored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended--
	b.stalled = b.stalled && !stored
	b.wake()
}

// pass admits another waiting chat in place of one that did not begin.
func (b *backlog) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake()
}

// close admits all waiting chats, which a closing runner then refuses.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
}

// wake admits as many waiting chats as there is capacity for. The caller must hold mu.
func (b *backlog) wake() {
	n := min(max(b.limit-b.ended, 0), len(b.waiting))
	if b.closed {
		n = len(b.waiting)
	}
	for _, room := range b.waiting[:n] {
		close(room)
	}
	b.waiting = b.waiting[n:]
}

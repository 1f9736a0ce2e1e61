package inline

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxBacklog is how many chats may have ended whose events are not stored yet.
const maxBacklog = 1024

// backlog counts the chats that have ended and whose events are not stored yet. While it is
// full new chats wait to begin: events that come faster than the broker stores them slow their
// callers down, and are not dropped.
type backlog struct {
	most int

	mu      sync.Mutex
	ended   int
	waiting []chan struct{} // of chats that wait to begin, in the order in which they came
	closed  bool            // none waits any more
	stalled bool            // a chat has waited for all its time, and none was stored since
}

// await waits up to most until there is room, and reports whether there is. Once a chat has waited
// in vain, the next ones do not wait until events of a chat are stored.
func (b *backlog) await(ctx context.Context, most time.Duration) bool {
	b.mu.Lock()
	if b.ended < b.most || b.closed {
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
	timer := time.NewTimer(most)
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
	if i < 0 { // there is room just now
		return true
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.stalled = b.stalled || !callerLeft
	return false
}

// full reports whether a chat would have to wait.
func (b *backlog) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended >= b.most
}

// add counts a chat that has ended. Those that had begun by then find room in any case.
func (b *backlog) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended++
}

// remove takes a chat off whose events are stored, or given up, and lets as many begin as
// there is room for.
func (b *backlog) remove(stored bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended--
	b.stalled = b.stalled && !stored
	b.wake()
}

// pass leaves the room to the next chat, where one that waited for it does not begin.
func (b *backlog) pass() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake()
}

// close has none wait any more: a runner that closes refuses those that do.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wake()
}

// wake needs the lock.
func (b *backlog) wake() {
	n := min(max(b.most-b.ended, 0), len(b.waiting))
	if b.closed {
		n = len(b.waiting)
	}
	for _, room := range b.waiting[:n] {
		close(room)
	}
	b.waiting = b.waiting[n:]
}

package inline

import (
	"context"
	"slices"
	"sync"
)

// maxStores is how many events of inline chats are being stored at a time. More would only wait
// in the broker, where the first events of new chats are before the ends of old ones.
const maxStores = 256

// stage is how far a chat's events are. A later stage is stored first, so that chats are done
// one after the other, and room for new ones comes free all the time: in the order in which
// they come, all chats of a burst would be done at its end.
type stage int

const (
	stageBegin stage = iota
	stageEnd
	stageFinish
	stages
)

// lane bounds how many events are being stored at a time.
type lane struct {
	mu      sync.Mutex
	free    int
	waiting [stages][]chan struct{}
}

// acquire waits for a place. It is false when ctx ended before. release must follow.
func (l *lane) acquire(ctx context.Context, s stage) bool {
	l.mu.Lock()
	if l.free > 0 {
		l.free--
		l.mu.Unlock()
		return true
	}
	place := make(chan struct{})
	l.waiting[s] = append(l.waiting[s], place)
	l.mu.Unlock()
	select {
	case <-place:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting[s], place)
	if i >= 0 {
		l.waiting[s] = slices.Delete(l.waiting[s], i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it was given just now
		l.release()
	}
	return false
}

// release hands the place on to the chat that is furthest.
func (l *lane) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := stages - 1; s >= 0; s-- {
		if len(l.waiting[s]) > 0 {
			close(l.waiting[s][0])
			l.waiting[s] = l.waiting[s][1:]
			return
		}
	}
	l.free++
}

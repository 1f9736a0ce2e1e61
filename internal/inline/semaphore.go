package inline

import (
	"context"
	"slices"
	"sync"
)

// maxWrites is how many events of inline chats are being stored at a time. More would only wait
// in the broker, where the first events of new chats are before the ends of old ones.
const maxWrites = 256

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

// semaphore bounds how many events are being stored at a time. Its permits go by stage.
type semaphore struct {
	mu      sync.Mutex
	free    int
	waiting [stages][]chan struct{}
}

// acquire waits for a permit. It is false when ctx ended before. release must follow.
func (s *semaphore) acquire(ctx context.Context, at stage) bool {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return true
	}
	permit := make(chan struct{})
	s.waiting[at] = append(s.waiting[at], permit)
	s.mu.Unlock()
	select {
	case <-permit:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.waiting[at], permit)
	if i >= 0 {
		s.waiting[at] = slices.Delete(s.waiting[at], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // it was given just now
		s.release()
	}
	return false
}

// release hands the permit on to the chat that is furthest.
func (s *semaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := stages - 1; at >= 0; at-- {
		if len(s.waiting[at]) > 0 {
			close(s.waiting[at][0])
			s.waiting[at] = s.waiting[at][1:]
			return
		}
	}
	s.free++
}

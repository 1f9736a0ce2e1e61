package inline

import (
	"context"
	"slices"
	"sync"
)

// maxWrites bounds concurrent writes of inline events. Further writes would only wait in the
// broker, where first events of new chats could be ahead of the ends of old ones.
const maxWrites = 256

// stage is the progress of a chat's events. Later stages are stored first, so that capacity for new
// chats becomes free steadily. In order of arrival, all chats of a burst would finish only when the
// burst ends.
type stage int

const (
	stageBegin stage = iota
	stageEnd
	stageFinish
	stages
)

// semaphore bounds concurrent writes and grants permits by stage.
type semaphore struct {
	mu      sync.Mutex
	free    int
	waiting [stages][]chan struct{}
}

// acquire waits for a permit and returns false if ctx ends first. If it returns true, the caller
// must call release.
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
	if i < 0 { // the permit has just been granted
		s.release()
	}
	return false
}

// release passes the permit to the longest-waiting chat of the latest stage, or frees it.
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

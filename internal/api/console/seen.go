package console

import (
	"maps"
	"sync"
	"time"
)

const (
	// lookTime is the period in which an operator's repeated reads of one job count as one access.
	// maxLooks bounds the number of remembered accesses.
	lookTime = 10 * time.Minute
	maxLooks = 1000
)

// seen remembers the accesses recorded recently.
type seen struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (s *seen) lately(look string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.at[look]
	return ok && now.Sub(at) < lookTime
}

func (s *seen) note(look string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.at, func(_ string, at time.Time) bool { return now.Sub(at) >= lookTime })
	if len(s.at) < maxLooks { // beyond this limit, every read is recorded
		s.at[look] = now
	}
}

package console

import (
	"maps"
	"sync"
	"time"
)

const (
	// lookTime is how long the reads of one result by one operator are one look, and maxLooks
	// bounds those that are known.
	lookTime = 10 * time.Minute
	maxLooks = 1000
)

// seen is who looked at what lately, as it was recorded.
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
	if len(s.at) < maxLooks { // else each read is recorded
		s.at[look] = now
	}
}

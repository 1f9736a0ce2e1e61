package intake

import (
	"sync"
)

// seenSet remembers inbox messages whose upload was missing.
//
// Two replicas may handle the same message, because it is redelivered if the first replica takes
// longer than AckWait, which is short just after startup. The first replica may accept the request
// and remove the upload before the second reads it. Therefore, a replica that finds an upload
// missing for the first time returns the message to the inbox. If the first replica has
// acknowledged the message, it is not redelivered. If it is redelivered, the upload is lost.
type seenSet struct {
	mu   sync.Mutex
	seqs map[uint64]struct{}
}

// maxSeen bounds the set, because some messages are never redelivered and so never removed. A full
// set is cleared, and its messages are returned to the inbox once more.
const maxSeen = 10_000

// first adds a message and returns true. If the message is already in the set, first removes it and
// returns false.
func (s *seenSet) first(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, seen := s.seqs[seq]; seen {
		delete(s.seqs, seq)
		return false
	}
	if s.seqs == nil || len(s.seqs) == maxSeen {
		s.seqs = map[uint64]struct{}{}
	}
	s.seqs[seq] = struct{}{}
	return true
}

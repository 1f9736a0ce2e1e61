package intake

import (
	"sync"
)

// seenSet remembers inbox messages whose upload was missing.
//
// Two replicas may handle the same message: it is redelivered when the first takes longer than
// AckWait, which is short just after startup. The first may accept it and remove the upload before
// the second reads it. So a replica that misses an upload for the first time returns the message. A
// message that was acknowledged is not redelivered, and one that is has lost its upload.
type seenSet struct {
	mu   sync.Mutex
	seqs map[uint64]struct{}
}

// maxSeen bounds the set, because some messages are never redelivered. Messages that are dropped
// from it are returned once more.
const maxSeen = 10_000

// first adds a message and returns true, or removes it and returns false if it is there already.
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

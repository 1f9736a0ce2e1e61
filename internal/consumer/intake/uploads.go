package intake

import (
	"sync"
)

// seenSet remembers messages of the inbox whose upload was gone when it was to be
// read.
//
// A message may be in two hands: it is given to a second one when the first takes
// longer than AckWait, which is short for a moment after a start. The first may then
// accept it, have its ack confirmed and remove the upload while the second is about
// to read. So a replica that misses an upload for the first time returns the message: one
// that was acknowledged does not come again, and one that does has lost its upload.
type seenSet struct {
	mu   sync.Mutex
	seqs map[uint64]struct{}
}

// maxSeen bounds what is remembered of messages that never come again. Those
// that are forgotten are given back once more.
const maxSeen = 10_000

// first reports whether a message is seen for the first time, and forgets one that
// is not.
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

package task

import "bytes"

// Fingerprinted is what carries the fingerprint of its request: a work item, or the
// execution of a job.
type Fingerprinted interface {
	GetFingerprint() []byte
}

// SameRequest reports whether two that have one id are of one request, too.
func SameRequest(a, b Fingerprinted) bool {
	return bytes.Equal(a.GetFingerprint(), b.GetFingerprint())
}

package jobindex

import "errors"

// Errors of an Index.
var (
	// ErrCatchingUp reports that no replica has the index ready.
	ErrCatchingUp = errors.New("no replica has the job index ready")
	// ErrBusy reports that the replicas with the index already run as many searches as they allow.
	ErrBusy = errors.New("too many searches of the job index at once")
)

package jobindex

import "errors"

// Errors of an Index.
var (
	// ErrCatchingUp: no replica has the index ready.
	ErrCatchingUp = errors.New("no replica has the job index ready")
	// ErrBusy: the replicas that have it run as many searches as they may.
	ErrBusy = errors.New("too many searches of the job index at once")
)

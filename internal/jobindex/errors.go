package jobindex

import "errors"

// Errors of an Index.
var (
	// ErrCatchingUp reports that the index is not ready on any replica.
	ErrCatchingUp = errors.New("no replica has the job index ready")
	// ErrBusy reports that the keepers are already running as many searches as they allow.
	ErrBusy = errors.New("too many searches of the job index at once")
)

package queue

import (
	"testing"
	"time"
)

// TestUnknownJobsAreOverdue proves that a reread is due after patience without a dispatch, or after
// ten times that with dispatches, and that each reread doubles patience.
func TestUnknownJobsAreOverdue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	u := unknownJobs{patience: unknownFor}
	after := func(d time.Duration, dispatched, want bool) {
		t.Helper()
		now = now.Add(d)
		if got := u.overdue(now, dispatched); got != want {
			t.Errorf("overdue %t, want %t", got, want)
		}
	}
	after(0, false, false)
	after(unknownFor-1, false, false)
	after(1, false, true)
	u.none()
	after(time.Hour, false, false)
	after(unknownFor, false, false)
	for range 18 {
		after(unknownFor, true, false)
	}
	after(unknownFor, true, true)
	u = unknownJobs{patience: maxUnknown}
	after(0, false, false)
	after(maxUnknown, false, true)
	u.none()
	after(0, false, false)
	after(maxUnknown, false, true)
}

package queue

import (
	"testing"
	"time"
)

// TestUnknownJobsAreOverdue after a while in which none is dispatched, or after ten times that, and
// after a reading not as soon.
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
	u = unknownJobs{patience: unknownMost}
	after(0, false, false)
	after(unknownMost, false, true)
	u.none()
	after(0, false, false)
	after(unknownMost, false, true)
}

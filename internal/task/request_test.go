package task

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestItemsOfOneID checks how the three functions tell apart the items of another attempt, a later
// job and another request.
func TestItemsOfOneID(t *testing.T) {
	t.Parallel()
	e, err := Cancelled(FromWork(work("video")).Job, start.Add(time.Minute), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		after                       time.Duration
		fingerprint                 string
		request, acceptance, itemOf bool
	}{
		"the job's own":   {0, "fp", true, true, true},
		"a second send":   {time.Second, "fp", true, false, true},
		"a later job's":   {time.Hour, "fp", true, false, false},
		"another request": {time.Second, "other", false, false, false},
	} {
		item := work("video")
		item.AcceptedAt, item.Fingerprint = timestamppb.New(start.Add(c.after)), []byte(c.fingerprint)
		if got := SameRequest(item, e.Job.GetExecution()); got != c.request {
			t.Errorf("%s: SameRequest is %v", name, got)
		}
		if got := SameAcceptance(item, e.Job.GetCreatedAt()); got != c.acceptance {
			t.Errorf("%s: SameAcceptance is %v", name, got)
		}
		if got := ItemOf(item, e.Job); got != c.itemOf {
			t.Errorf("%s: ItemOf is %v", name, got)
		}
	}
}

package quota_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/quota"
)

// TestRefusalsAreCounted checks that refusals count for an hour, for a bounded number of tenants.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	r, now := quota.NewRefusals(), time.Now()
	for i := range 3 {
		r.Add("acme", now.Add(time.Duration(i)*time.Minute))
	}
	r.Add("globex", now.Add(2*time.Minute))
	for after, want := range map[time.Duration][]quota.Refused{
		2 * time.Minute:  {{"acme", 3}, {"globex", 1}},
		61 * time.Minute: {{"acme", 1}, {"globex", 1}},
		62 * time.Minute: nil,
	} {
		if got := r.LastHour(10, now.Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	if got := r.LastHour(1, now.Add(2*time.Minute)); !slices.Equal(got, []quota.Refused{{"acme", 3}}) {
		t.Errorf("the first one is %v", got)
	}
	for i := range 5000 {
		r.Add(fmt.Sprint("made-up-", i), now.Add(3*time.Minute))
		r.Add("acme", now.Add(3*time.Minute))
	}
	if got := r.LastHour(10_000, now.Add(3*time.Minute)); len(got) != 1000 || got[0] != (quota.Refused{"acme", 5003}) {
		t.Errorf("%d tenants, first %v", len(got), got[0])
	}
}

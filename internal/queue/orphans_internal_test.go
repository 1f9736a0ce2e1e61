package queue

import "testing"

// TestConsumersAccountForAStream: for each job of a small one, and for all but a hundredth of a
// large one, in which some jobs are always on their way.
func TestConsumersAccountForAStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		jobs, before, after uint64
		want                bool
	}{
		{0, 0, 0, true},
		{0, 0, 1, false},
		{10, 10, 9, true},
		{9, 10, 9, false},
		{19_998, 19_999, 19_999, false},
		{19_900, 20_001, 20_100, true},
		{19_800, 20_001, 20_100, false},
		{464_900, 465_000, 466_000, true},
		{464_900, 466_000, 465_000, true}, // jobs have ended meanwhile
		{460_000, 465_000, 466_000, false},
	} {
		if got := accounted(c.jobs, c.before, c.after); got != c.want {
			t.Errorf("%d jobs in %d to %d messages: %t, want %t", c.jobs, c.before, c.after, got, c.want)
		}
	}
}

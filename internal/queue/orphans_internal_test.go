package queue

import "testing"

// TestConsumersAccountForAStream proves that the consumers must account for all messages of a small
// stream and for 99% of a large one, in which some messages are always in transit.
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
		{464_900, 466_000, 465_000, true}, // jobs ended during the count
		{460_000, 465_000, 466_000, false},
	} {
		if got := accounted(c.jobs, c.before, c.after); got != c.want {
			t.Errorf("%d jobs in %d to %d messages: %t, want %t", c.jobs, c.before, c.after, got, c.want)
		}
	}
}

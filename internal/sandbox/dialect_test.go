package sandbox

import (
	"testing"
	"time"
)

// TestWords proves which status words each dialect uses over the life of a task.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect *dialect
		want    [3]string
	}{
		{flat, [3]string{"queued", "in_progress", "completed"}},
		{enveloped, [3]string{"NOT_START", "IN_PROGRESS", "SUCCESS"}},
		{videos, [3]string{"queued", "in_progress", "completed"}},
		{videosGateway, [3]string{"unknown", "processing", "completed"}},
		{kling, [3]string{"submitted", "processing", "succeed"}},
		{jimeng, [3]string{"in_queue", "generating", "done"}},
	} {
		made := New(Options{VideoDuration: time.Minute}).newTask(c.dialect, "m", Behaviour{})
		for i, elapsed := range []time.Duration{0, 30 * time.Second, time.Minute} {
			if got := made.at(made.created+elapsed, &c.dialect.words).word; got != c.want[i] {
				t.Errorf("after %v: %q, want %q", elapsed, got, c.want[i])
			}
		}
	}
}

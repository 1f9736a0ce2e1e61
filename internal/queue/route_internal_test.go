package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestAReadKeepsARecount proves that recount invalidates a read that is in progress.
func TestAReadKeepsARecount(t *testing.T) {
	t.Parallel()
	read := func(jobs uint64) *jetstream.ConsumerInfo { return &jetstream.ConsumerInfo{NumPending: jobs} }
	r := &Route{backlog: newBacklog()}
	learn := func(jobs uint64, during func()) {
		counted, update := r.counted.Load(), r.window.beginRead()
		during()
		r.learn(read(jobs), read(0), counted, update)
	}
	learn(3, func() {})
	if r.counted.Load() < 1 || r.Counts().Ready != 3 {
		t.Fatalf("%+v as of %d, want what was read", r.Counts(), r.counted.Load())
	}
	learn(4, r.recount)
	if at := r.counted.Load(); at >= 1 {
		t.Errorf("the counts pass for those of %d: the recount is lost", at)
	}
	learn(5, func() { r.recount(); r.recount() })
	if at := r.counted.Load(); at >= 1 {
		t.Errorf("the counts pass for those of %d: the second recount is lost", at)
	}
}

// TestCountsOfTheFutureAreOld proves that counts are reread after the wall clock was set back.
func TestCountsOfTheFutureAreOld(t *testing.T) {
	t.Parallel()
	r := &Route{}
	now := time.Now()
	for at, fresh := range map[time.Time]bool{now: true, now.Add(-time.Hour): false, now.Add(time.Hour): false} {
		r.counted.Store(at.UnixNano())
		if r.fresh(time.Minute) != fresh {
			t.Errorf("counts that were read %s ago are fresh: %t", now.Sub(at), !fresh)
		}
	}
}

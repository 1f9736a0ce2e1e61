package rescue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestDeadlinesComeInOrder proves the order of deadlines after any sets, changes and drops.
func TestDeadlinesComeInOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	d, now := newDeadlines(1000), time.Now()
	want := map[string]time.Time{}
	for range 5000 {
		id := fmt.Sprint(r.IntN(500))
		if r.IntN(4) == 0 {
			d.drop(id)
			delete(want, id)
			continue
		}
		want[id] = now.Add(rand.N(time.Hour))
		d.set(deadline{id: id, at: want[id]})
	}
	if _, ok := d.due(now.Add(-time.Second)); ok {
		t.Error("one is due before it is")
	}
	var times []time.Time
	for {
		n, ok := d.due(now.Add(time.Hour))
		if !ok {
			break
		}
		if !want[n.id].Equal(n.at) {
			t.Errorf("%s at %s, want %s", n.id, n.at, want[n.id])
		}
		delete(want, n.id)
		times = append(times, n.at)
	}
	if len(want) != 0 || !slices.IsSortedFunc(times, time.Time.Compare) || len(d.queue.places) != 0 {
		t.Errorf("%d are left, sorted %t", len(want), slices.IsSortedFunc(times, time.Time.Compare))
	}
}

func TestDeadlinesAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 100
	d, now := newDeadlines(limit), time.Now()
	for i := range 10 * limit {
		d.set(deadline{id: fmt.Sprint(i), at: now.Add(time.Duration(10*limit-i) * time.Second)})
	}
	if n := d.queue.Len(); n != limit || len(d.queue.places) != limit {
		t.Errorf("%d are kept", n)
	}
	if n, ok := d.due(now.Add(time.Hour)); !ok || n.id != fmt.Sprint(10*limit-1) {
		t.Errorf("the first is %v", n)
	}
}

// TestDeadlinesTakeAsMuchMemoryAsIsStated proves that a deadline takes at most 250 bytes.
func TestDeadlinesTakeAsMuchMemoryAsIsStated(t *testing.T) {
	const n = 50_000
	d, now := newDeadlines(n), time.Now()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		d.set(deadline{id: fmt.Sprintf("video_%026d", i), tenant: "acme", at: now.Add(time.Duration(i))})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%d bytes each", each)
	if each > 250 || d.queue.Len() != n {
		t.Errorf("%d bytes each", each)
	}
}

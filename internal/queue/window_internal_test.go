package queue

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestWindowHasItsSize(t *testing.T) {
	t.Parallel()
	w := window{fixed: 2}
	first, second, third := w.reserve(), w.reserve(), w.reserve()
	if !first || !second || third {
		t.Fatal("want two places")
	}
	w.done(true)
	w.done(false)
	if !w.reserve() || w.reserve() {
		t.Error("want the place back that was not used")
	}
	w.taken(2)
	if !w.reserve() {
		t.Error("want the places of those that were taken out")
	}
	update := w.beginRead()
	w.taken(1)
	if !w.reserve() {
		t.Error("want a place")
	}
	update(reading{ready: 2}, time.Now()) // two, one taken and one added in between: two
	if w.reserve() {
		t.Error("want no place")
	}
	w.taken(9)
	if w.ready != 0 {
		t.Errorf("%d are ready", w.ready)
	}
	w.resize(-1)
	if w.reserve() || w.limit() != 0 {
		t.Error("want no place at all")
	}
}

// route simulates a route with an endless backlog whose jobs are all taken by other replicas. A
// ready job starts as soon as a slot is free. The unit of time is a step of 5 ms.
type route struct {
	w             window
	places        int
	ready         []int // steps at which the ready jobs became ready
	ends          []int // steps at which the running jobs end
	ended         uint64
	started       int
	waits         []int // steps between ready and started
	now           int
	every, unread int
}

const step = 5 * time.Millisecond

func steps(d time.Duration) int { return int(d / step) }

func (r *route) run(d, life time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	for range steps(d) {
		r.now++
		ends := r.ends[:0]
		for _, end := range r.ends {
			if end > r.now {
				ends = append(ends, end)
			} else {
				r.ended++
			}
		}
		r.ends = ends
		for len(r.ready) > 0 && len(r.ends) < r.places {
			r.waits = append(r.waits, r.now-r.ready[0])
			r.ready = r.ready[1:]
			r.started++
			r.ends = append(r.ends, r.now+max(1, int(float64(steps(life))*(0.5+random.Float64()))))
		}
		if r.unread++; r.unread >= r.every {
			r.unread = 0
			r.w.beginRead()(reading{ready: len(r.ready), free: r.places - len(r.ends), ended: r.ended}, time.Unix(0, int64(r.now)*int64(step)))
		}
		for r.w.reserve() {
			r.ready = append(r.ready, r.now)
		}
	}
}

// TestMeasuredWindow proves that a measured window keeps the slots busy and ready jobs waiting
// briefly, whatever the duration of the jobs.
func TestMeasuredWindow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		places int
		life   time.Duration
		every  time.Duration // between two reads
		wait   time.Duration // limit for 99% of the ready jobs
		use    float64       // minimum share of busy slots
	}{
		{"short jobs", 100, 20 * time.Millisecond, fastestRead, 1200 * time.Millisecond, 0.95},
		{"jobs of a second", 100, time.Second, congestedRead, 1500 * time.Millisecond, 0.98},
		{"long jobs", 100, time.Minute, congestedRead, 6 * time.Second, 0.98},
		{"few places", 2, time.Second, congestedRead, 3 * time.Second, 0.9},
		{"one place", 1, 10 * time.Second, congestedRead, 15 * time.Second, 0.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := route{places: test.places, every: steps(test.every), w: window{free: test.places}}
			begin := max(3*time.Second, 10*test.life) // until jobs that started together are spread out
			r.run(begin, test.life)
			r.waits, r.started = nil, 0
			const lives = 50
			d := max(lives*test.life, 10*time.Second)
			r.run(d, test.life)
			slices.Sort(r.waits)
			median, wait := time.Duration(r.waits[len(r.waits)/2])*step, time.Duration(r.waits[len(r.waits)*99/100])*step
			t.Logf("ready jobs wait for %s (median), %s (99 of 100)", median, wait)
			if wait > test.wait {
				t.Errorf("a ready job waits for %s", wait)
			}
			if most := float64(test.places) * d.Seconds() / test.life.Seconds(); float64(r.started) < test.use*most {
				t.Errorf("%d jobs were started of %.0f that there are places for", r.started, most)
			}
		})
	}
}

// TestAWindowForSlowJobsGrowsForFastOnes proves that the window adapts within a few reads.
func TestAWindowForSlowJobsGrowsForFastOnes(t *testing.T) {
	t.Parallel()
	const places = 100
	r := route{places: places, every: steps(congestedRead), w: window{free: places}}
	r.run(4*time.Minute, time.Minute)
	if n := r.w.limit(); n > 10 {
		t.Fatalf("%d places for jobs of which one or two a second are started", n)
	}
	for i := range r.ends { // they fail in quick succession
		r.ends[i] = r.now + i
	}
	r.run(time.Second, 20*time.Millisecond)
	r.started = 0
	r.every = steps(fastestRead)
	r.run(time.Second, 20*time.Millisecond)
	if most := places * 50; r.started < most*9/10 {
		t.Errorf("%d jobs were started in a second of %d that there are places for", r.started, most)
	}
}

// TestWindowIsMeasuredFromWhatIsRead proves that the size stays sensible after counts that go back,
// repeated times and pauses.
func TestWindowIsMeasuredFromWhatIsRead(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(100, 0).Add(time.Duration(ms) * time.Millisecond) }
	w := window{}
	for _, test := range []struct {
		what  string
		ended uint64
		free  int
		at    int
		want  int
	}{
		{"the first reading has no rate", 1000, 0, 0, leastReady},
		{"free places take jobs at once", 1000, 7, 1, 7 + leastReady},
		{"100 have left in a second", 1100, 0, 1001, 48},
		{"the same again", 1200, 0, 2001, 65},
		{"read twice at one time", 1300, 0, 2001, 65},
		{"created again", 0, 0, 3001, 65},
		{"a pause", 0, 5, 60_000, 5 + leastReady},
	} {
		w.beginRead()(reading{free: test.free, ended: test.ended}, at(test.at))
		if got := w.limit(); got != test.want {
			t.Errorf("%s: room for %d, want %d", test.what, got, test.want)
		}
	}
	if got := w.lasts(); got != time.Hour {
		t.Errorf("without starts it lasts for %s", got)
	}
	if w.outdated() {
		t.Error("outdated, and none was taken")
	}
	w.taken(3)
	if !w.outdated() {
		t.Error("half of it was taken, and it is not outdated")
	}
	if got := w.limit(); got != 2+leastReady {
		t.Errorf("after three were taken: room for %d", got)
	}
	w.taken(9)
	if got := w.limit(); got != leastReady {
		t.Errorf("after more were taken than there was room for: %d", got)
	}
	w.measure(math.MaxUint64, at(60_001))
	if got := w.limit(); got < leastReady {
		t.Errorf("room for %d", got)
	}
}

package queue

import (
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// windowSpan is how long the jobs of a measured window take to be started. The first job of
	// a tenant waits for them, and for what is not known of them: about a second in all.
	windowSpan = 750 * time.Millisecond
	// rateMemory is how long ago what was measured counts a third.
	rateMemory = time.Second
	// leastReady keeps a place of max_in_flight from being empty while the next job is dispatched.
	leastReady = 1
)

// window is what this replica knows of the ready jobs of a route: those that the
// durable consumer has not delivered yet. Their number is read about once a second, more
// often while the backlog is dispatched; in between, what this replica puts in and takes
// out is counted. While there is no backlog several replicas may each fill the room that
// they saw, so that at most size jobs more are ready for each further replica.
//
// Its size is configured, or measured: the jobs that free places of max_in_flight take at once,
// and those that places take that become free within windowSpan, as they did lately. Jobs that
// start at once make no one wait; so a window that was small for slow jobs has room for fast
// ones as soon as they have left their places, and is read.
type window struct {
	mu sync.Mutex
	// fixed is the configured size; 0 for a measured one, below 0 for no room.
	fixed int
	// free are the places of max_in_flight, as they were read, that no job has taken since.
	free int
	// rate is how many jobs a second leave their places, in all replicas. ended counts them,
	// as of measured; zero for never.
	rate     float64
	ended    uint64
	measured time.Time

	ready int
	puts  int // in all
	takes int // in all
	// takesRead are those before the last reading.
	takesRead int
}

// reading is what the durable consumer of a route said of its jobs: how many are ready,
// how many more may be in work, and how many have left, once for each delivery.
type reading struct {
	ready, free int
	ended       uint64
}

func readingOf(info *jetstream.ConsumerInfo) reading {
	pending := uint64(max(info.NumAckPending, 0))
	return reading{
		ready: int(min(info.NumPending, math.MaxInt32)),
		free:  max(info.Config.MaxAckPending-info.NumAckPending, 0),
		ended: max(info.Delivered.Consumer, pending) - pending,
	}
}

// share is that part of the window that so many jobs are.
func (w *window) share(jobs int) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(jobs) / float64(max(w.size(), 1))
}

// filled is that part of the window that ready jobs take, as far as is known.
func (w *window) filled() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.ready) / float64(max(w.size(), 1))
}

// lasts is how long a full window lasts, by the latest rate; an hour at most.
func (w *window) lasts() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(min(float64(w.size())/max(w.rate, 1e-6), 3600) * float64(time.Second))
}

// outdated reports whether a measured window is to be read before its time: this replica has
// taken as many jobs since as it has room for.
func (w *window) outdated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fixed == 0 && w.takes-w.takesRead >= w.size()
}

// limit is how many jobs may be ready.
func (w *window) limit() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size()
}

func (w *window) size() int {
	if w.fixed != 0 {
		return max(w.fixed, 0)
	}
	return max(w.free, 0) + max(int(math.Ceil(w.rate*windowSpan.Seconds())), leastReady)
}

// resize fixes how many jobs may be ready; 0: it is measured.
func (w *window) resize(fixed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fixed = fixed
}

// full reports whether there is no room, as far as is known.
func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready >= w.size()
}

// reserve takes room for a job that is about to be put in.
func (w *window) reserve() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready >= w.size() {
		return false
	}
	w.ready++
	w.puts++
	return true
}

// done gives the reserved place back, unless the job is enqueued or may be.
func (w *window) done(enqueued bool) {
	if enqueued {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = max(w.ready-1, 0)
}

// taken counts jobs that this replica took out.
func (w *window) taken(jobs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes += jobs
	w.ready = max(w.ready-jobs, 0)
	w.free = max(w.free-jobs, 0)
}

// beginRead is called before the durable consumer is read, and update with what it said, and
// the time. What this replica dispatches meanwhile may be in it or not, and is added to it in
// any case. If it was in it, it counts twice until the next read: a job put in leaves
// room unused, and one taken out has one job too many made ready, and a free place unused.
func (w *window) beginRead() (update func(r reading, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	puts, takes := w.puts, w.takes
	return func(r reading, now time.Time) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ready = max(r.ready+(w.puts-puts)-(w.takes-takes), 0)
		w.free = max(r.free-(w.takes-takes), 0)
		w.takesRead = takes
		w.measure(r.ended, now)
	}
}

// measure smooths the rate. A count that goes back is of a consumer that was created again, or
// of another leader that has heard less.
func (w *window) measure(ended uint64, now time.Time) {
	passed := now.Sub(w.measured).Seconds()
	if !w.measured.IsZero() && passed > 0 && ended >= w.ended {
		latest := float64(ended-w.ended) / passed
		w.rate += (latest - w.rate) * (1 - math.Exp(-passed/rateMemory.Seconds()))
	}
	w.ended, w.measured = ended, now
}

package queue

import (
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// windowSpan is how long it takes to start the ready jobs of a measured window. A tenant's
	// first job waits for them, which takes about a second because the measurement is inexact.
	windowSpan = 750 * time.Millisecond
	// rateMemory is the age at which the weight of a measurement has dropped to a third.
	rateMemory = time.Second
	// leastReady is enough to keep a slot of max_in_flight busy while the next job is dispatched.
	leastReady = 1
)

// window tracks a route's ready jobs as seen by this replica. Ready jobs are those that the durable
// consumer has not delivered yet. The consumer's state is read about once a second, and more often
// while jobs are dispatched. Between reads, this replica counts the jobs that it adds and takes. If
// there is no backlog, several replicas may fill the same capacity, so each additional replica can
// add up to size jobs.
//
// The size is configured or measured. A measured window holds one job for each free slot of
// max_in_flight, and one for each slot that will be freed within windowSpan at the recent rate.
// Because free slots count, a window that was sized for slow jobs grows at the first read after
// fast jobs have freed their slots.
type window struct {
	mu sync.Mutex
	// fixed is the configured size. It is 0 for a measured window, and negative if no jobs may be
	// ready.
	fixed int
	// free is the number of unused slots of max_in_flight at the last read, minus the jobs taken
	// since.
	free int
	// rate is the number of jobs per second that free a slot, across all replicas. ended is their
	// total number at the time measured. ended and measured are zero until the first read.
	rate     float64
	ended    uint64
	measured time.Time

	ready int
	puts  int // total number of jobs added
	takes int // total number of jobs taken
	// takesRead is the value of takes at the last read.
	takesRead int
}

// reading is the state of a route's durable consumer: ready jobs, free slots, and the total number
// of ended deliveries.
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

func (w *window) share(jobs int) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(jobs) / float64(max(w.size(), 1))
}

// filled returns the share of the window that ready jobs occupy.
func (w *window) filled() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.ready) / float64(max(w.size(), 1))
}

// lasts returns how long a full window lasts at the current rate, up to an hour.
func (w *window) lasts() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(min(float64(w.size())/max(w.rate, 1e-6), 3600) * float64(time.Second))
}

// outdated reports whether a measured window must be read early, because this replica has taken a
// whole window of jobs since the last read.
func (w *window) outdated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fixed == 0 && w.takes-w.takesRead >= w.size()
}

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

// resize sets the number of jobs that may be ready. If fixed is 0, the window is measured.
func (w *window) resize(fixed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fixed = fixed
}

func (w *window) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready >= w.size()
}

// reserve claims capacity for a job that is about to be enqueued.
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

// done ends a reservation. It frees the capacity if the job was certainly not enqueued.
func (w *window) done(enqueued bool) {
	if enqueued {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = max(w.ready-1, 0)
}

func (w *window) taken(jobs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes += jobs
	w.ready = max(w.ready-jobs, 0)
	w.free = max(w.free-jobs, 0)
}

// beginRead starts a read of the durable consumer. Call update with the result and its time. update
// also applies the jobs that were added or taken during the read, although the result may already
// include them. Until the next read, an added job that is counted twice leaves capacity unused. A
// taken job that is counted twice makes one job too many ready and leaves a slot unused.
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

// measure updates the smoothed rate. It ignores a count below the previous one, because either the
// consumer was recreated or a lagging leader answered.
func (w *window) measure(ended uint64, now time.Time) {
	passed := now.Sub(w.measured).Seconds()
	if !w.measured.IsZero() && passed > 0 && ended >= w.ended {
		latest := float64(ended-w.ended) / passed
		w.rate += (latest - w.rate) * (1 - math.Exp(-passed/rateMemory.Seconds()))
	}
	w.ended, w.measured = ended, now
}

package queue

import "sync"

// window is what this replica knows of the ready jobs of a route: those that the
// durable consumer has not delivered yet. Their number is read about once a second, more
// often while the backlog is dispatched; in between, what this replica puts in and takes
// out is counted. While there is no backlog several replicas may each fill the room that
// they saw, so that at most size jobs more are ready for each further replica.
type window struct {
	mu    sync.Mutex
	size  int
	ready int
	puts  int // in all
	takes int // in all
}

// share is that part of the window that so many jobs are.
func (w *window) share(jobs int) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(jobs) / float64(max(w.size, 1))
}

// limit is how many jobs may be ready.
func (w *window) limit() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// resize changes how many jobs may be ready.
func (w *window) resize(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size = size
}

// reserve takes room for a job that is about to be put in.
func (w *window) reserve() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready >= w.size {
		return false
	}
	w.ready++
	w.puts++
	return true
}

// settle returns the room, unless the job is enqueued or may be.
func (w *window) settle(enqueued bool) {
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
}

// beginRead is called before the number of ready jobs is read, and update with that
// number. What this replica moves meanwhile may be in it or not, and is added to it in
// any case. If it was in it, it counts twice until the next read: a job put in leaves
// room unused, and one taken out has one job too many made ready.
func (w *window) beginRead() (update func(ready int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	puts, takes := w.puts, w.takes
	return func(ready int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ready = max(ready+(w.puts-puts)-(w.takes-takes), 0)
	}
}

package admission

import "sync"

// line is what this replica knows of the line of a route: the jobs that its durable
// consumer has not delivered yet. It is read about once a second; in between, what
// this replica puts in and takes out is counted. Several replicas may each fill the
// places that they saw, so that at most ready jobs more stand in line for each
// further replica.
type line struct {
	mu       sync.Mutex
	ready    int // places
	standing int
	puts     int // in all
	takes    int // in all
}

// widen gives the line another number of places.
func (l *line) widen(ready int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = ready
}

// reserve takes a place for a job that is about to be put in.
func (l *line) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standing >= l.ready {
		return false
	}
	l.standing++
	l.puts++
	return true
}

// settle gives the place back, unless the job stands there or may do so.
func (l *line) settle(stands bool) {
	if stands {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing = max(l.standing-1, 0)
}

// taken counts jobs that this replica took out.
func (l *line) taken(jobs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takes += jobs
	l.standing = max(l.standing-jobs, 0)
}

// reading begins a look at the line. The returned function ends it with what was
// read. What this replica moves meanwhile may be in it or not, and is added to it in
// any case. If it was in it, it counts twice until the next look: a job put in
// leaves a place empty, and one taken out has a place too many filled.
func (l *line) reading() (read func(standing int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	puts, takes := l.puts, l.takes
	return func(standing int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.standing = max(standing+(l.puts-puts)-(l.takes-takes), 0)
	}
}

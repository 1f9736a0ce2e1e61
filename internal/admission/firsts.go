package admission

import (
	"context"
	"sync"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// maxFirsts bounds the first events that are kept. A holder that asks later reads the log.
const maxFirsts = 1024

// firsts are the first events of the jobs that this process admits, for the holder of the
// item: it is mostly in the same process, and faster than the write of the event. It waits
// for that instead of racing it, and reads nothing. What it is told may be old by then: the
// compare-and-set of its own write decides, as ever.
type firsts struct {
	mu    sync.Mutex
	jobs  map[subject.JobName]*first
	order []*first // oldest first, those included that were taken
}

// first is one of them. entry is set before known is closed, and zero where the log did not
// take the event.
type first struct {
	name  subject.JobName
	known chan struct{}
	entry joblog.Entry
}

func newFirsts() *firsts { return &firsts{jobs: map[subject.JobName]*first{}} }

// begin is called before the item is stored, and tell when its admission is over: with the
// job as the log has it, or with nothing.
func (f *firsts) begin(n subject.JobName) (tell func(joblog.Entry)) {
	one := &first{name: n, known: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[n] = one
	if f.order = append(f.order, one); len(f.order) > maxFirsts {
		if oldest := f.order[0]; f.jobs[oldest.name] == oldest {
			delete(f.jobs, oldest.name)
		}
		f.order[0] = nil
		f.order = f.order[1:]
	}
	return func(e joblog.Entry) {
		one.entry = e
		close(one.known)
	}
}

// take returns a job's, once.
func (f *firsts) take(ctx context.Context, n subject.JobName) (joblog.Entry, bool) {
	f.mu.Lock()
	one := f.jobs[n]
	delete(f.jobs, n)
	f.mu.Unlock()
	if one == nil {
		return joblog.Entry{}, false
	}
	select {
	case <-one.known:
		return one.entry, one.entry.Seq > 0
	case <-ctx.Done():
		return joblog.Entry{}, false
	}
}

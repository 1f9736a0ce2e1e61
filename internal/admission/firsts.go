package admission

import (
	"context"
	"sync"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// maxFirsts limits the number of entries. If an entry has been dropped, the job's holder reads the
// log.
const maxFirsts = 1024

// firsts hands the holder of a job's item the first event of that job, if this process admitted the
// job. The holder usually runs in the same process and could write to the log before that event is
// written. It waits for the event instead, and then need not read it from the log. The entry may be
// outdated, but the compare-and-set of the holder's next write still decides.
type firsts struct {
	mu    sync.Mutex
	jobs  map[subject.JobName]*first
	order []*first // oldest first, including taken ones
}

// first is the first event of a job. entry is set before known is closed. It is zero if the log did
// not store the event.
type first struct {
	name  subject.JobName
	known chan struct{}
	entry joblog.Entry
}

func newFirsts() *firsts { return &firsts{jobs: map[subject.JobName]*first{}} }

// begin registers a job before its item is stored. When the admission ends, call tell with the
// job's log entry or a zero entry.
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

// take returns a job's entry once.
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

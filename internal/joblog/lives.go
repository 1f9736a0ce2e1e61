package joblog

import (
	"sync"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// lives knows what a life of a job takes in the log, by kind: running averages of what this
// replica wrote, which begin with what an ordinary job takes.
type lives struct {
	mu    sync.Mutex
	kinds map[subject.Kind]*averages
}

// averages are those of the jobs of one kind.
type averages struct {
	least  float64 // events of the shortest whole life
	events float64 // of one job
	event  float64 // bytes of one that is no end
	first  float64 // bytes of the first ones that were written lately
	end    float64 // bytes of an end, without its feed copy
}

const (
	// weight is that of the latest event or job in its average.
	weight = 1. / 256
	// firstWeight is that of the latest first event: what is accepted changes sooner than what
	// a life takes.
	firstWeight = 1. / 16
	// leastEvent bounds what an event takes from below, as averages.least does their number:
	// jobs that ended early say nothing of those that are still to run.
	leastEvent = 1 << 10
	// endMore is what an end takes beyond an ordinary event where a job ends before it was
	// submitted: its error.
	endMore = 1 << 10
)

// newLives begins with a video that was seen at several stages, and a chat of a few
// hundred words.
func newLives() *lives {
	return &lives{kinds: map[subject.Kind]*averages{
		subject.Video: {least: 4, events: 8, event: 1280, end: 2 << 10},
		subject.Chat:  {least: 3, events: 3, event: 1280, end: 4<<10 + 256},
	}}
}

// stored is what a message takes in the log, in bytes: the file store adds 30 to its subject,
// header and data.
func stored(m *nats.Msg) int {
	n := 30 + len("NATS/1.0\r\n\r\n") + len(m.Subject) + len(m.Data)
	for key, values := range m.Header {
		for _, v := range values {
			n += len(key) + len(v) + len(": \r\n")
		}
	}
	return n
}

// wrote takes an event of some bytes into the averages, and an end where the job completed:
// those that fail at once, as all do while an upstream is down, say nothing of those that
// wait until it is back.
func (v *lives) wrote(e task.Event, bytes int) {
	if e.Terminal() && e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	a := v.kinds[subject.Kind(task.Kind(e.Job))]
	if e.Version() == 1 {
		a.first += firstWeight * (float64(bytes) - a.first)
	}
	if !e.Terminal() {
		a.event += weight * (float64(bytes) - a.event)
		return
	}
	a.events += weight * (float64(e.Version()) - a.events)
	a.end += weight * (float64(bytes) - a.end)
}

// life is what a new job takes: all its events, and the feed copy of the last one.
func (v *lives) life(kind subject.Kind) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kinds[kind].life()
}

// unwritten is what some unfinished jobs are still to write, in bytes.
type unwritten struct {
	rest     int64 // the rest of ordinary lives
	shortest int64 // that of the shortest whole lives
	ends     int64 // their ends if none went on
}

// reserve gives what some unfinished jobs are still to write. of are those that are known,
// with the size of their events. The others count as ordinary ones of the larger kind whose
// events are as large as those of the known ones, or as the first ones that this replica wrote
// lately.
func (v *lives) reserve(jobs int64, of map[subject.Kind]Unfinished) (u unwritten) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var largest *averages
	var all Unfinished
	first := float64(leastEvent)
	for kind, a := range v.kinds {
		known := of[kind]
		u.add(a, known)
		all = Unfinished{Jobs: all.Jobs + known.Jobs, Bytes: all.Bytes + known.Bytes}
		first = max(first, a.event, a.first)
		if largest == nil || a.rest() > largest.rest() {
			largest = a
		}
	}
	if others := jobs - all.Jobs; others > 0 {
		u.add(largest, Unfinished{Jobs: others, Bytes: others * max(int64(first), all.Bytes/max(all.Jobs, 1))})
	}
	return u
}

// add takes jobs of a kind into account.
func (u *unwritten) add(a *averages, n Unfinished) {
	ends := 2 * (n.Bytes + n.Jobs*endMore)
	u.ends += ends
	u.shortest += ends + int64(a.least-2)*max(n.Bytes, n.Jobs*leastEvent)
	u.rest += max(n.Jobs*a.rest(), ends)
}

func (a *averages) life() int64 { return a.rest() + int64(max(a.event, leastEvent)) }

// rest is a life without its first event.
func (a *averages) rest() int64 {
	between := max(a.events, a.least) - 2
	return int64(between*max(a.event, leastEvent) + 2*max(a.end, leastEvent))
}

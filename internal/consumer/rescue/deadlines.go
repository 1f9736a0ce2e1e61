package rescue

import (
	"container/heap"
	"time"
)

// deadlines are the times at which jobs are to be looked at, the earliest first. When
// there are too many, a late one is forgotten.
type deadlines struct {
	limit  int
	queue  deadlineQueue
	forgot bool // since they were last recalled
}

// deadline is that of one job.
type deadline struct {
	at         time.Time
	tenant, id string
}

func newDeadlines(limit int) *deadlines {
	return &deadlines{limit: limit, queue: deadlineQueue{places: map[string]int{}}}
}

// set gives a job its deadline, or another one.
func (d *deadlines) set(n deadline) {
	if at, known := d.queue.places[n.id]; known {
		d.queue.all[at].at = n.at
		heap.Fix(&d.queue, at)
		return
	}
	if last := len(d.queue.all) - 1; last+1 >= d.limit {
		d.forgot = true
		// The last of a heap is among the latest; to find the very latest is not worth
		// the search.
		if !n.at.Before(d.queue.all[last].at) {
			return
		}
		heap.Remove(&d.queue, last)
	}
	heap.Push(&d.queue, n)
}

// hasCapacity reports whether something was forgotten for which there is room again.
func (d *deadlines) hasCapacity() bool { return d.forgot && len(d.queue.all) <= d.limit/2 }

// drop takes out a job's deadline.
func (d *deadlines) drop(id string) {
	if at, known := d.queue.places[id]; known {
		heap.Remove(&d.queue, at)
	}
}

// next is the earliest deadline; false when there is none.
func (d *deadlines) next() (time.Time, bool) {
	if len(d.queue.all) == 0 {
		return time.Time{}, false
	}
	return d.queue.all[0].at, true
}

// due takes out the earliest deadline that has passed; false when there is none.
func (d *deadlines) due(now time.Time) (deadline, bool) {
	if at, some := d.next(); !some || at.After(now) {
		return deadline{}, false
	}
	n, ok := heap.Pop(&d.queue).(deadline)
	return n, ok
}

// deadlineQueue is a heap that knows the position of each job.
type deadlineQueue struct {
	all    []deadline
	places map[string]int // by id
}

func (q *deadlineQueue) Len() int           { return len(q.all) }
func (q *deadlineQueue) Less(i, j int) bool { return q.all[i].at.Before(q.all[j].at) }

func (q *deadlineQueue) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.places[q.all[i].id], q.places[q.all[j].id] = i, j
}

func (q *deadlineQueue) Push(x any) {
	if n, ok := x.(deadline); ok {
		q.places[n.id] = len(q.all)
		q.all = append(q.all, n)
	}
}

func (q *deadlineQueue) Pop() any {
	last := len(q.all) - 1
	n := q.all[last]
	q.all[last] = deadline{} // lets its strings go
	q.all = q.all[:last]
	delete(q.places, n.id)
	return n
}

package rescue

import (
	"container/heap"
	"time"
)

// deadlines holds the times at which jobs have to be checked, earliest first. Above limit it drops
// late ones.
type deadlines struct {
	limit   int
	queue   deadlineQueue
	dropped bool // a deadline was dropped since the last recall
}

// deadline is the time at which to check one job.
type deadline struct {
	at         time.Time
	tenant, id string
}

func newDeadlines(limit int) *deadlines {
	return &deadlines{limit: limit, queue: deadlineQueue{places: map[string]int{}}}
}

func (d *deadlines) set(n deadline) {
	if at, known := d.queue.places[n.id]; known {
		d.queue.all[at].at = n.at
		heap.Fix(&d.queue, at)
		return
	}
	if last := len(d.queue.all) - 1; last+1 >= d.limit {
		d.dropped = true
		// The last of a heap is among the latest; finding the very latest is not worth the search.
		if !n.at.Before(d.queue.all[last].at) {
			return
		}
		heap.Remove(&d.queue, last)
	}
	heap.Push(&d.queue, n)
}

// hasCapacity reports whether dropped deadlines exist and there is capacity for them again.
func (d *deadlines) hasCapacity() bool { return d.dropped && len(d.queue.all) <= d.limit/2 }

func (d *deadlines) drop(id string) {
	if at, known := d.queue.places[id]; known {
		heap.Remove(&d.queue, at)
	}
}

// next returns the earliest deadline, or false.
func (d *deadlines) next() (time.Time, bool) {
	if len(d.queue.all) == 0 {
		return time.Time{}, false
	}
	return d.queue.all[0].at, true
}

// due removes and returns the earliest deadline that has passed, or returns false.
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
	places map[string]int // by job ID
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
	q.all[last] = deadline{} // free its strings
	q.all = q.all[:last]
	delete(q.places, n.id)
	return n
}

package pool

import (
	"cmp"
	"slices"
	"time"
)

const (
	// slotKept is how long a free slot is reserved for the first waiting job. A job that does not
	// acquire it in time is passed over but keeps its place.
	slotKept = time.Second
	// recheckSlot is the longest time that a queued job waits before it checks again.
	recheckSlot = 30 * time.Second
)

// Waiter is a job's place in the queue for slots of keys with a limit (max_concurrent). Free slots
// go to the job that has waited longest, and no new job overtakes it. A job may wait for several
// keys. A Waiter is safe for concurrent use.
type Waiter struct {
	wake func()

	// The fields below are guarded by pool.mu.
	pool    *Pool
	number  uint64      // order of waiting; 0 while not waiting
	keys    []*key      // keys that it waits for
	granted *key        // key that reserves a slot for it, or nil
	expiry  *time.Timer // end of the reservation
}

// NewWaiter returns a waiter that is not queued. wake is called when the job should try to acquire
// again. The pool is locked at that time, so wake must not block or call the pool.
func NewWaiter(wake func()) *Waiter { return &Waiter{wake: wake} }

// Cancel takes the job out of the queue and returns a slot that is reserved for it.
func (w *Waiter) Cancel() {
	if w == nil || w.pool == nil {
		return
	}
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	w.cancel()
}

// cancel requires the pool's lock, like all functions below.
func (w *Waiter) cancel() {
	w.dequeue()
	w.number = 0
	w.returnSlot()
}

// enqueue adds the job to a key's queue. A job that was queued before keeps its place.
func (w *Waiter) enqueue(p *Pool, k *key) {
	w.pool = p
	if w.number == 0 {
		p.waiters++
		w.number = p.waiters
	}
	if at, found := k.find(w); !found {
		k.waiters = slices.Insert(k.waiters, at, w)
		w.keys = append(w.keys, k)
	}
}

func (w *Waiter) dequeue() {
	for _, k := range w.keys {
		if at, found := k.find(w); found {
			k.waiters = slices.Delete(k.waiters, at, at+1)
		}
	}
	w.keys = nil
}

// returnSlot passes the reserved slot on to the next job.
func (w *Waiter) returnSlot() {
	k := w.granted
	if k == nil {
		return
	}
	w.expiry.Stop()
	w.granted, w.expiry = nil, nil
	k.reserved--
	k.grant()
}

func (k *key) find(w *Waiter) (at int, found bool) {
	return slices.BinarySearchFunc(k.waiters, w.number, func(o *Waiter, number uint64) int { return cmp.Compare(o.number, number) })
}

// grant reserves free slots for the jobs that have waited longest, and wakes them.
func (k *key) grant() {
	for len(k.waiters) > 0 && !k.full(nil) {
		w := k.waiters[0]
		w.dequeue()
		k.reserved++
		w.granted = k
		w.expireAfter(slotKept)
		w.wake()
	}
}

// expireAfter gives the reserved slot back after d, unless the job acquires it first.
func (w *Waiter) expireAfter(d time.Duration) {
	var timer *time.Timer
	p := w.pool
	timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.expiry == timer {
			w.returnSlot()
		}
	})
	w.expiry = timer
}

// dismiss removes all jobs from a key's queue and wakes them to acquire again, because the set of
// keys has changed. They keep their places.
func (k *key) dismiss() {
	for _, w := range slices.Clone(k.waiters) {
		w.dequeue()
		w.wake()
	}
}

// full reports whether the key has no slot for a job, because all are in use or reserved for
// others.
func (k *key) full(w *Waiter) bool {
	used := k.inUse + k.reserved
	if w != nil && w.granted == k {
		used--
	}
	return k.maxInUse > 0 && used >= k.maxInUse
}

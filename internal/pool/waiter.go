package pool

import (
	"cmp"
	"slices"
	"time"
)

const (
	// slotKept is how long a free slot is reserved for the job that has waited longest. A
	// job that does not come within this time is passed over, and keeps its place.
	slotKept = time.Second
	// recheckSlot is how long a job that is woken in turn waits at most.
	recheckSlot = 30 * time.Second
)

// Waiter is the place of one job among those that wait for a slot, where the slots of a
// key are limited (max_concurrent). Free slots go to those who have waited longest, and no
// new job overtakes them. A job may wait for several keys at a time. It is safe for
// concurrent use.
type Waiter struct {
	wake func()

	// The mutex of the pool that it waits in guards what follows.
	pool    *Pool
	number  uint64      // orders those that wait; 0 for a job that does not
	keys    []*key      // that it waits for
	granted *key        // has reserved a slot for it; nil otherwise
	expiry  *time.Timer // of the reservation
}

// NewWaiter returns the waiter of a job that does not wait yet. wake is called when the
// job should acquire again. It is called while the pool is locked: it must not block, nor
// call the pool.
func NewWaiter(wake func()) *Waiter { return &Waiter{wake: wake} }

// Leave gives up the place, and a slot that is reserved.
func (w *Waiter) Leave() {
	if w == nil || w.pool == nil {
		return
	}
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	w.leave()
}

// leave, like all that follow, needs the lock of the pool.
func (w *Waiter) leave() {
	w.dequeue()
	w.number = 0
	w.giveBack()
}

// enqueue has the job wait for a key too. It keeps the place that it had.
func (w *Waiter) enqueue(p *Pool, k *key) {
	w.pool = p
	if w.number == 0 {
		p.waiters++
		w.number = p.waiters
	}
	if at, found := k.find(w); !found {
		k.waiting = slices.Insert(k.waiting, at, w)
		w.keys = append(w.keys, k)
	}
}

// dequeue takes the job out of the queues of all keys.
func (w *Waiter) dequeue() {
	for _, k := range w.keys {
		if at, found := k.find(w); found {
			k.waiting = slices.Delete(k.waiting, at, at+1)
		}
	}
	w.keys = nil
}

// giveBack lets the next job have the slot that is reserved for this one.
func (w *Waiter) giveBack() {
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
	return slices.BinarySearchFunc(k.waiting, w.number, func(o *Waiter, number uint64) int { return cmp.Compare(o.number, number) })
}

// grant reserves the free slots for those who have waited longest, and wakes them.
func (k *key) grant() {
	for len(k.waiting) > 0 && !k.full(nil) {
		w := k.waiting[0]
		w.dequeue()
		k.reserved++
		w.granted = k
		w.expireAfter(slotKept)
		w.wake()
	}
}

// expireAfter gives the reserved slot back where the job does not come for it.
func (w *Waiter) expireAfter(d time.Duration) {
	var timer *time.Timer
	p := w.pool
	timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.expiry == timer {
			w.giveBack()
		}
	})
	w.expiry = timer
}

// dismiss wakes all jobs that wait for a key, so that they acquire again: the key is gone, or
// there is another one. They keep their places.
func (k *key) dismiss() {
	for _, w := range slices.Clone(k.waiting) {
		w.dequeue()
		w.wake()
	}
}

// full reports whether the key has no slot for a job: all are in use, or reserved for
// others.
func (k *key) full(w *Waiter) bool {
	used := k.inHand + k.reserved
	if w != nil && w.granted == k {
		used--
	}
	return k.most > 0 && used >= k.most
}

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

// Ticket is the place of one job among those that wait for a slot, where the slots of a
// key are limited (max_concurrent). Free slots go to those who have waited longest, and no
// new job overtakes them. A job may wait for several keys at a time. It is safe for
// concurrent use.
type Ticket struct {
	wake func()

	// The mutex of the pool that it waits in guards what follows.
	pool    *Pool
	number  uint64      // orders those that wait; 0 for a job that does not
	keys    []*key      // that it waits for
	granted *key        // has reserved a slot for it; nil otherwise
	expiry  *time.Timer // of the reservation
}

// NewTicket returns the ticket of a job that does not wait yet. wake is called when the
// job should acquire again. It is called while the pool is locked: it must not block, nor
// call the pool.
func NewTicket(wake func()) *Ticket { return &Ticket{wake: wake} }

// Leave gives up the place, and a slot that is reserved.
func (t *Ticket) Leave() {
	if t == nil || t.pool == nil {
		return
	}
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	t.leave()
}

// leave, like all that follow, needs the lock of the pool.
func (t *Ticket) leave() {
	t.dequeue()
	t.number = 0
	t.giveBack()
}

// enqueue has the job wait for a key too. It keeps the place that it had.
func (t *Ticket) enqueue(p *Pool, k *key) {
	t.pool = p
	if t.number == 0 {
		p.tickets++
		t.number = p.tickets
	}
	if at, found := k.find(t); !found {
		k.waiting = slices.Insert(k.waiting, at, t)
		t.keys = append(t.keys, k)
	}
}

// dequeue takes the job out of the queues of all keys.
func (t *Ticket) dequeue() {
	for _, k := range t.keys {
		if at, found := k.find(t); found {
			k.waiting = slices.Delete(k.waiting, at, at+1)
		}
	}
	t.keys = nil
}

// giveBack lets the next job have the slot that is reserved for this one.
func (t *Ticket) giveBack() {
	k := t.granted
	if k == nil {
		return
	}
	t.expiry.Stop()
	t.granted, t.expiry = nil, nil
	k.reserved--
	k.grant()
}

func (k *key) find(t *Ticket) (at int, found bool) {
	return slices.BinarySearchFunc(k.waiting, t.number, func(o *Ticket, number uint64) int { return cmp.Compare(o.number, number) })
}

// grant reserves the free slots for those who have waited longest, and wakes them.
func (k *key) grant() {
	for len(k.waiting) > 0 && !k.full(nil) {
		t := k.waiting[0]
		t.dequeue()
		k.reserved++
		t.granted = k
		t.expireAfter(slotKept)
		t.wake()
	}
}

// expireAfter gives the reserved slot back where the job does not come for it.
func (t *Ticket) expireAfter(d time.Duration) {
	var timer *time.Timer
	p := t.pool
	timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.expiry == timer {
			t.giveBack()
		}
	})
	t.expiry = timer
}

// dismiss wakes all jobs that wait for a key, so that they acquire again: the key is gone, or
// there is another one. They keep their places.
func (k *key) dismiss() {
	for _, t := range slices.Clone(k.waiting) {
		t.dequeue()
		t.wake()
	}
}

// full reports whether the key has no slot for a job: all are in use, or reserved for
// others.
func (k *key) full(t *Ticket) bool {
	used := k.inHand + k.reserved
	if t != nil && t.granted == k {
		used--
	}
	return k.most > 0 && used >= k.most
}

package tail

import (
	"context"
	"io"
	"slices"
	"sort"
)

// turn is the maximum number of items that Next returns to a follower that is catching up.
const turn = 64

// Cursor is one follower's position in a log. Its methods must be called from one goroutine. Any
// goroutine may receive from Signal.
type Cursor[K comparable, V any] struct {
	t      *tail[K, V]
	signal chan struct{}
	buf    []Item[V]

	// Guarded by the tail's lock:
	epoch int64
	at    uint64
	live  bool  // it has caught up, and may fall behind by Options.Buffer from now on
	taken int64 // the tail's total at the last copy
	cut   bool
}

// Signal returns a channel that receives a value when Next may have items.
func (c *Cursor[K, V]) Signal() <-chan struct{} { return c.signal }

func (c *Cursor[K, V]) ring() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// Close ends the cursor. It may be called twice.
func (c *Cursor[K, V]) Close() {
	if c.t.remove(c) {
		c.t.set.remove(c.t)
	}
}

// Started waits for the first read of the head and returns the head. found is false for an empty
// log. If the log already has followers, the head may be as old as the tail's last check. A cursor
// that joined with another epoch always gets the current head.
func (c *Cursor[K, V]) Started(ctx context.Context) (head Item[V], found bool, err error) {
	t := c.t
	if err := t.await(ctx, func() bool { return t.headDone > 0 }); err != nil {
		return head, false, err
	}
	t.mu.Lock()
	other := c.epoch != 0 && c.epoch != t.epoch
	t.mu.Unlock()
	if other {
		if err := c.Sync(ctx); err != nil {
			return head, false, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.items); n > 0 {
		return t.items[n-1], true, nil
	}
	return head, false, nil
}

// Sync waits for a head read that starts after the call. Next then returns everything up to that
// head. Concurrent callers share the read.
func (c *Cursor[K, V]) Sync(ctx context.Context) error {
	t := c.t
	t.mu.Lock()
	ticket := t.heads + 1
	t.wantHead = true
	t.kick()
	t.mu.Unlock()
	return t.await(ctx, func() bool { return t.final || t.headDone >= ticket })
}

// await waits until done returns true or the tail fails. It calls done with the lock held.
func (t *tail[K, V]) await(ctx context.Context, done func() bool) error {
	for {
		t.mu.Lock()
		ok, err, changed := done(), t.err, t.changed
		t.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// MoveTo continues after a position of an epoch.
func (c *Cursor[K, V]) MoveTo(epoch int64, at uint64) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.epoch, c.at, c.live = epoch, at, false
}

// Epoch returns the epoch of the items that Next returned last.
func (c *Cursor[K, V]) Epoch() int64 {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.epoch
}

// Next returns the next items, in order and without a gap. It returns none if no more are known;
// Signal then tells when to call again. The items are valid until the next call. It blocks while it
// reads the stream. It fails with io.EOF after the final item, with ErrSlowReader, with the cause
// of ctx, or with the error that ended the tail.
func (c *Cursor[K, V]) Next(ctx context.Context) ([]Item[V], error) {
	t := c.t
	for {
		t.mu.Lock()
		if c.epoch != t.epoch && t.started {
			c.epoch, c.at, c.live = t.epoch, 0, false
		}
		switch {
		case c.cut:
			t.mu.Unlock()
			return nil, ErrSlowReader
		case c.at >= t.base:
			defer t.mu.Unlock()
			return c.copy()
		case t.err != nil:
			defer t.mu.Unlock()
			return nil, t.err
		}
		c.live = false
		p, err := t.older(ctx, c.at)
		if err != nil {
			return nil, err
		}
		c.moved(p.upTo)
		if len(p.items) > 0 {
			return p.items, nil
		}
	}
}

func (c *Cursor[K, V]) moved(to uint64) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.at = max(c.at, to)
}

// copy returns the items that the tail keeps after the cursor's position. Callers hold the tail's
// lock.
func (c *Cursor[K, V]) copy() ([]Item[V], error) {
	t := c.t
	clear(c.buf)
	c.buf = c.buf[:0]
	first := sort.Search(len(t.items), func(i int) bool { return t.items[i].Pos > c.at })
	rest := t.items[first:]
	if !c.live && len(rest) > turn {
		rest = rest[:turn]
	} else if t.started {
		c.live, c.taken = true, t.total
	}
	switch {
	case len(rest) > 0:
		c.buf = append(slices.Grow(c.buf, len(rest)), rest...)
		c.at = rest[len(rest)-1].Pos
		return c.buf, nil
	case t.err != nil:
		return nil, t.err
	case t.final:
		return nil, io.EOF
	}
	return nil, nil
}

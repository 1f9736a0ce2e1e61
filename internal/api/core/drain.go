package core

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/genbus/genbus/internal/errcode"
)

// drain ends calls at shutdown in two steps: first calls that another replica can show or continue,
// and in the end those that hold an upstream call.
type drain struct {
	mu      sync.Mutex
	refused *errcode.Error // set once draining has begun
	closed  bool
	watches map[*member]struct{}
	works   map[*member]struct{}
	holds   map[*member]struct{}
}

type member struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func newDrain() *drain {
	return &drain{watches: map[*member]struct{}{}, works: map[*member]struct{}{}, holds: map[*member]struct{}{}}
}

// refusal returns the error for a new call, or nil before draining.
func (d *drain) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused == nil {
		return nil
	}
	return d.refused
}

// watch registers a call that Drain ends. The call must call release at its end.
func (d *drain) watch(ctx context.Context) (_ context.Context, release func()) {
	return d.join(ctx, d.watches, func() bool { return d.refused != nil })
}

// work registers a call that changes something. Drain ends it, and await waits until it has ended.
func (d *drain) work(ctx context.Context) (_ context.Context, release func()) {
	return d.join(ctx, d.works, func() bool { return d.refused != nil })
}

// hold registers a call that continues until Close.
func (d *drain) hold(ctx context.Context) (_ context.Context, release func()) {
	return d.join(ctx, d.holds, func() bool { return d.closed })
}

func (d *drain) join(ctx context.Context, group map[*member]struct{}, over func() bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &member{cancel: cancel, done: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if over() {
		cancel(d.refused)
		return ctx, func() {}
	}
	group[m] = struct{}{}
	return ctx, func() {
		d.mu.Lock()
		delete(group, m)
		d.mu.Unlock()
		close(m.done)
		cancel(nil)
	}
}

// begin refuses new calls and ends watches and works. Only the first cause counts.
func (d *drain) begin(cause *errcode.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused == nil {
		d.refused = cause
	}
	for _, group := range []map[*member]struct{}{d.watches, d.works} {
		for m := range group {
			m.cancel(d.refused)
		}
	}
}

// await waits until the calls registered by work have ended or ctx ends. It must follow begin.
func (d *drain) await(ctx context.Context) {
	d.mu.Lock()
	working := slices.Collect(maps.Keys(d.works))
	d.mu.Unlock()
	for _, m := range working {
		select {
		case <-m.done:
		case <-ctx.Done():
			return
		}
	}
}

// cut ends the remaining calls. It must follow begin.
func (d *drain) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for m := range d.holds {
		m.cancel(d.refused)
	}
}

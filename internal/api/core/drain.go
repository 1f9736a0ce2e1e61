package core

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/genbus/genbus/internal/errcode"
)

// drain ends calls at shutdown in two steps: first those that only watch a job, which any other
// replica can show, and those that any other replica can continue; at the end those that hold an
// upstream call.
type drain struct {
	mu      sync.Mutex
	refused *errcode.Error // set once draining has begun
	closed  bool
	watches map[*member]struct{}
	works   map[*member]struct{}
	holds   map[*member]struct{}
}

// member is one running call.
type member struct {
	cancel context.CancelCauseFunc
	left   chan struct{}
}

func newDrain() *drain {
	return &drain{watches: map[*member]struct{}{}, works: map[*member]struct{}{}, holds: map[*member]struct{}{}}
}

// refusal is the error for a call that comes now; nil while calls are taken.
func (d *drain) refusal() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused == nil {
		return nil
	}
	return d.refused
}

// watch joins a call that Drain ends. leave must be called when it is over.
func (d *drain) watch(ctx context.Context) (_ context.Context, leave func()) {
	return d.join(ctx, d.watches, func() bool { return d.refused != nil })
}

// work is watch for a call that changes something: await waits until it has left.
func (d *drain) work(ctx context.Context) (_ context.Context, leave func()) {
	return d.join(ctx, d.works, func() bool { return d.refused != nil })
}

// hold joins a call that goes on until Close.
func (d *drain) hold(ctx context.Context) (_ context.Context, leave func()) {
	return d.join(ctx, d.holds, func() bool { return d.closed })
}

func (d *drain) join(ctx context.Context, group map[*member]struct{}, over func() bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &member{cancel: cancel, left: make(chan struct{})}
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
		close(m.left)
		cancel(nil)
	}
}

// begin refuses what comes and ends the watches. The first cause stays.
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

// await waits until the calls of work have left, or until ctx ends; begin came before.
func (d *drain) await(ctx context.Context) {
	d.mu.Lock()
	working := slices.Collect(maps.Keys(d.works))
	d.mu.Unlock()
	for _, m := range working {
		select {
		case <-m.left:
		case <-ctx.Done():
			return
		}
	}
}

// cut ends the rest; begin came before.
func (d *drain) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for m := range d.holds {
		m.cancel(d.refused)
	}
}

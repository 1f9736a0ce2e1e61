package core

import (
	"context"
	"sync"

	"github.com/genbus/genbus/internal/errcode"
)

// drain ends calls at shutdown in two steps: first those that only watch a job,
// which any other replica can show, and at the end those that hold an upstream
// call.
type drain struct {
	mu      sync.Mutex
	refused *errcode.Error // set once draining has begun
	closed  bool
	watches map[*member]struct{}
	holds   map[*member]struct{}
}

// member is one running call.
type member struct{ cancel context.CancelCauseFunc }

func newDrain() *drain {
	return &drain{watches: map[*member]struct{}{}, holds: map[*member]struct{}{}}
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

// hold joins a call that goes on until Close.
func (d *drain) hold(ctx context.Context) (_ context.Context, leave func()) {
	return d.join(ctx, d.holds, func() bool { return d.closed })
}

func (d *drain) join(ctx context.Context, group map[*member]struct{}, over func() bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	m := &member{cancel: cancel}
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
	for m := range d.watches {
		m.cancel(d.refused)
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

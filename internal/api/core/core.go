// Package core implements calls for every ingress. It identifies and limits callers, and submits,
// reads, follows, cancels and erases jobs. HTTP, gRPC and NATS are thin adapters over it in the
// neighbouring packages. All its errors are *errcode.Error.
package core

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/parts"
)

// Options configures a Core. All fields except LocalKey are required.
type Options struct {
	*parts.Parts
	Inline *inline.Runner
	// LocalKey is the key with which the process itself calls as LocalOperator while no operator
	// key is configured. Empty disables LocalOperator.
	LocalKey string
}

// Core has one field per group of calls. All are safe for concurrent use.
type Core struct {
	Callers *Callers
	Jobs    *Jobs
	Watcher *Watcher
	Chats   *Chats
	Content *Content
	Models  *Models

	// WriteTimeout is limits.write_timeout. It bounds one write to a client. A client that does not
	// read for that long is cut off.
	WriteTimeout time.Duration
	// BodyTimeout bounds the arrival of an HTTP request body and of a gRPC message: 2 min.
	BodyTimeout time.Duration

	drain *drain
}

// New returns a Core. It starts nothing.
func New(o Options) *Core {
	d := newDrain()
	jobs := &Jobs{admission: o.Admission, queue: o.Queue, log: o.Log, index: o.Index, eraser: o.Eraser, logger: o.Logger, now: time.Now}
	watcher := &Watcher{cfg: o.Config, jobs: jobs, log: o.Log, chats: o.Chats, metrics: o.Metrics, drain: d}
	return &Core{
		Callers:      &Callers{cfg: o.Config, local: o.LocalKey, tenants: o.Admission.Tenants, log: o.Log, drain: d},
		Jobs:         jobs,
		Watcher:      watcher,
		Chats:        &Chats{inline: o.Inline, jobs: jobs, watcher: watcher, bodies: o.Bodies, drain: d},
		Content:      &Content{jobs: jobs, routes: o.Routes, reader: o.Content, bodies: o.Bodies, drain: d},
		Models:       &Models{routes: o.Routes},
		WriteTimeout: o.Config.Now().Limits.WriteTimeout,
		BodyTimeout:  2 * time.Minute,
		drain:        d,
	}
}

// Drain refuses new calls and ends calls that only watch or wait, which can continue on another
// replica. Their error is cause, or a default message if cause is nil. Inline chats and downloads
// continue until Close. Drain may be called twice.
func (c *Core) Drain(cause error) { c.drain.begin(shutdownFault(cause)) }

// AwaitWork waits, after Drain, until all calls registered with Callers.Work have ended or ctx
// ends.
func (c *Core) AwaitWork(ctx context.Context) { c.drain.await(ctx) }

// Close drains and cuts off all remaining calls with shutting_down. It may be called twice.
func (c *Core) Close() {
	c.Drain(nil)
	c.drain.cut()
}

// Package core is what every ingress does with a call: who may call and how
// often, and submitting, reading, following, cancelling and erasing jobs. It is
// plain Go; HTTP, gRPC and NATS are thin adapters over it in the packages next
// to it. Every error that it returns is a *errcode.Error.
package core

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/parts"
)

// Options are what a Core works with. All are required but LocalKey.
type Options struct {
	*parts.Parts
	Inline *inline.Runner
	// LocalKey is the key with which the process itself calls as LocalOperator, while no
	// operator's key is configured; empty for no such operator.
	LocalKey string
}

// Core has one part for each subject. All are safe for concurrent use.
type Core struct {
	Callers *Callers
	Jobs    *Jobs
	Watcher *Watcher
	Chats   *Chats
	Content *Content

	// WriteTimeout bounds one write to a client: limits.write_timeout. A client that does
	// not read for that long is cut off.
	WriteTimeout time.Duration
	// BodyTimeout bounds the arrival of a request's body by HTTP, and of a call's
	// message by gRPC: 2 min.
	BodyTimeout time.Duration

	drain *drain
}

// New builds a core. It starts nothing.
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
		WriteTimeout: o.Config.Now().Limits.WriteTimeout,
		BodyTimeout:  2 * time.Minute,
		drain:        d,
	}
}

// Drain refuses new calls and ends those that only watch or wait, which can go
// on at another replica; cause is what their callers are told, nil for "this
// replica is going down". Inline chats and downloads go on until Close. It may be
// called twice.
func (c *Core) Drain(cause error) { c.drain.begin(shutdownFault(cause)) }

// AwaitWork waits until the calls of Callers.Work have ended, after Drain, or until ctx ends.
func (c *Core) AwaitWork(ctx context.Context) { c.drain.await(ctx) }

// Close is Drain, and cuts every call that is left with shutting_down. It may be
// called twice.
func (c *Core) Close() {
	c.Drain(nil)
	c.drain.cut()
}

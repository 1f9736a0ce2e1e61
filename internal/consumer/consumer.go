// Package consumer runs accepted jobs from the work stream until they end, and passes requests from
// the inbox to admission.
//
// Each route and each kind of request has one durable pull consumer. This package implements the
// fetch loops, startup and drain. Package hold manages the messages of held jobs, packages video
// and chat run the jobs, package intake admits requests, and package rescue ends jobs that no
// replica would otherwise end.
package consumer

import (
	"context"
	"fmt"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/rescue"
	"github.com/genbus/genbus/internal/consumer/video"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
)

// Consumer serves all routes and the inbox.
type Consumer struct {
	*parts.Parts
	holder  *hold.Holder
	videos  *video.Runners
	sweeper *rescue.Sweeper
	counter *counter

	stopFetching context.CancelCauseFunc
	stopWorking  context.CancelCauseFunc
	loops        sync.WaitGroup // fetch loops
	extending    sync.WaitGroup // the ticker that extends held messages
	resync       gate

	idleAfter, fetchWait time.Duration
	// running is used by Start, and then only by reloads, which run one at a time.
	running map[routeID]*running
	idle    idlePulls
}

// New returns a consumer that has not been started. When ctx ends, fetching stops, but only Drain
// stops running jobs. Start the index after calling New, so that the sweeper observes jobs that are
// already waiting.
func New(ctx context.Context, p *parts.Parts) *Consumer {
	fetching, stopFetching := context.WithCancelCause(ctx)
	working, stopWorking := context.WithCancelCause(context.WithoutCancel(ctx))
	h := hold.New(fetching, working, hold.Options{
		Broker: p.Broker, Log: p.Log, Bodies: p.Bodies,
		DeadLetters: p.DeadLetters, Admitted: p.Admission.First, Queue: p.Queue,
		Metrics: p.Metrics, Tracing: p.Tracing, Logger: p.Logger, Alone: p.Config.Now().NATS.Embedded(),
	})
	c := &Consumer{
		Parts: p, holder: h,
		sweeper: rescue.New(rescue.Options{
			Life: h.Life, Clock: p.Broker.Clock(), Log: p.Log, Queue: p.Queue, DeadLetters: p.DeadLetters, Logger: p.Logger,
		}),
		videos: video.New(video.Options{
			Holder: h, Config: p.Config, Routes: p.Routes, Content: p.Content,
			ReserveDeadLetter: p.DeadLetterQuota.Reserve,
		}),
		stopFetching: stopFetching, stopWorking: stopWorking,
		running: map[routeID]*running{}, idleAfter: idleAfter, fetchWait: hold.FetchWait,
	}
	c.counter = &counter{
		config: p.Config, broker: p.Broker, queue: p.Queue, metrics: p.Metrics, log: p.Logger,
		restore: c.restoreRoute, every: countEvery,
	}
	p.Index.Observe(c.sweeper)
	return c
}

// Held returns the number of jobs that this process holds.
func (c *Consumer) Held() int { return c.holder.Held() }

// HeldJob returns details about the job with the given ID, or nil if this process does not hold it.
func (c *Consumer) HeldJob(id string) *genbusv1.HeldJob { return c.holder.HeldJob(id) }

// Drain stops fetching, returns the messages of jobs that have no call in progress, and waits for
// the remaining calls. If ctx ends first, Drain cancels those calls. When it returns, all work of
// the consumer has stopped.
func (c *Consumer) Drain(ctx context.Context) error {
	c.stopFetching(hold.ErrShutdown)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Wait for the fetch loops first. Otherwise they might receive the messages that HandOver
		// returns.
		c.loops.Wait()
		c.holder.HandOver()
		c.holder.Jobs.Wait()
	}()
	defer c.extending.Wait()
	defer c.stopWorking(hold.ErrShutdown)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	c.stopWorking(hold.ErrShutdown)
	<-done
	return fmt.Errorf("the grace period ended with running calls; another replica or the next start continues their jobs: %w", context.Cause(ctx))
}

// reconnected rechecks held jobs before fetching resumes, because the broker may have redelivered
// them to other replicas.
func (c *Consumer) reconnected(ctx context.Context) {
	c.Metrics.Reconnected()
	c.resync.shut()
	defer c.resync.open()
	c.holder.Reclaim(ctx)
	c.idle.interrupt() // the server may also answer requests sent before the disconnect
}

// gate blocks the fetch loops while at least one caller has shut it.
type gate struct {
	mu     sync.Mutex
	closed int
	opened chan struct{}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed++; g.closed == 1 {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed--; g.closed == 0 {
		close(g.opened)
	}
}

// pass waits until the gate is open or ctx ends.
func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	closed, opened := g.closed, g.opened
	g.mu.Unlock()
	if closed == 0 {
		return ctx.Err()
	}
	select {
	case <-opened:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// routeID identifies a route in the broker.
type routeID struct {
	kind subject.Kind
	name string
}

func idOf(r config.Route) routeID { return routeID{subject.Kind(r.Kind), r.Name} }

// running is a route that this process serves.
type running struct {
	route config.Route
	// appliedMaxAckPending is the max_in_flight that is in effect in the broker, or 0 if unknown.
	appliedMaxAckPending int
	slots                *slots
}

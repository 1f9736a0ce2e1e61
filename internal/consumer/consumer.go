// Package consumer takes accepted jobs from the work stream and carries them to
// their end, and takes requests from the inbox to admission. It accepts nothing
// itself; that is admission's.
//
// One durable pull consumer serves each route. A work item is held, not
// acknowledged, for as long as its job lives: one ticker extends what is held,
// and a redelivery means that a holder is gone and the job is to be resumed from
// its log.
package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// ErrShutdown is the cause of every context that ends because the process does.
var ErrShutdown = errors.New("genbus is shutting down")

// Options are the parts that the consumer works with. All are required, except Tracing.
type Options struct {
	Config    *config.Live
	Broker    *broker.Broker
	Log       *tasklog.Log
	Encoder   publisher.Encoder
	Bodies    *broker.Bodies
	Uploads   *natsreq.Uploads
	Content   *content.Reader
	Routes    *routes.Table
	Admission *admission.Admission
	Queue     *queue.Queue
	Letters   *quota.Letters
	Metrics   *telemetry.Metrics
	Tracing   telemetry.Tracing
	Logger    *slog.Logger
}

// Consumer runs all routes and the inbox.
type Consumer struct {
	Options
	dead    publisher.DeadLetters
	held    *registry
	sweeper *sweeper
	reads   *rate.Limiter // leader reads of held jobs
	ups     *upstreams
	// copies bounds the results that are being copied to the object store.
	copies chan struct{}

	fetching     context.Context // ends first: no more messages are taken
	stopFetching context.CancelCauseFunc
	working      context.Context // ends when the grace period does
	stopWorking  context.CancelCauseFunc
	loops        sync.WaitGroup // fetch loops
	extending    sync.WaitGroup // the ticker that extends what is held
	jobs         sync.WaitGroup // jobs that a goroutine works on
	resync       gate

	countEvery time.Duration
	// running belongs to Start, and then to the reload at work.
	running map[routeID]*running
}

// confirmEvery is how often the log of a held job is read although nothing was
// heard of it. An ordered consumer tells what live delivery lost, so this is the
// last resort, and confirmPerSecond bounds what it costs (docs/adr/0001).
const (
	confirmEvery     = 10 * time.Minute
	confirmPerSecond = 100
)

// New returns a consumer that does nothing yet. ctx bounds the life of all work.
// The log is started after it, so that it hears of the jobs that wait already.
func New(ctx context.Context, o Options) *Consumer {
	c := &Consumer{
		Options: o, held: newRegistry(),
		dead:  publisher.DeadLetters{Broker: o.Broker, Bodies: o.Bodies, Metrics: o.Metrics},
		reads: rate.NewLimiter(confirmPerSecond, confirmPerSecond),
		ups:   newUpstreams(o.Config, o.Metrics), copies: make(chan struct{}, maxCopies),
		running: map[routeID]*running{}, countEvery: countEvery,
	}
	c.sweeper = newSweeper(c)
	o.Log.Observe(c.sweeper.notice)
	c.fetching, c.stopFetching = context.WithCancelCause(ctx)
	c.working, c.stopWorking = context.WithCancelCause(context.WithoutCancel(ctx))
	return c
}

// Start creates the durable consumers, and begins to take work.
func (c *Consumer) Start(ctx context.Context) error {
	c.Log.Observe(c.held.notice(c.Log.Writer()))
	c.Broker.OnReconnect(c.reconnected)
	for _, r := range c.Config.Now().Routes {
		cons, err := c.ensureRoute(ctx, r, c.durable)
		if err != nil {
			return err
		}
		c.startRoute(r, cons)
	}
	c.loops.Go(func() { c.Queue.Run(c.fetching, c.Logger) })
	c.loops.Go(c.sweeper.run)
	c.loops.Go(c.countStreams)
	c.loops.Go(c.watchOrphans)
	every := shortestAckWait(c.Config.Now().Routes) / 3 // a reload changes none of them
	c.extending.Go(func() { c.held.keepExtending(c.working, every) })
	return c.startIntake(ctx)
}

func shortestAckWait(routes []config.Route) time.Duration {
	shortest := time.Minute
	for _, r := range routes {
		shortest = min(shortest, r.AckWait)
	}
	return shortest
}

// Drain stops taking work at once, hands over what is only held, and waits for
// the calls in hand until ctx ends; then it cuts them. It returns when nothing
// of the consumer runs any more.
func (c *Consumer) Drain(ctx context.Context) error {
	c.stopFetching(ErrShutdown)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// First the fetches end, so that nothing that is given back comes to this
		// process again.
		c.loops.Wait()
		c.held.drain()
		c.jobs.Wait()
	}()
	defer c.extending.Wait()
	defer c.stopWorking(ErrShutdown)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	c.stopWorking(ErrShutdown)
	<-done
	return fmt.Errorf("the grace period ended with calls in hand; their jobs are resumed by other replicas: %w", context.Cause(ctx))
}

// reconnected makes sure of what is held before anything new is fetched: the
// broker may have given it to others meanwhile.
func (c *Consumer) reconnected(ctx context.Context) {
	c.Metrics.Reconnected()
	c.resync.shut()
	defer c.resync.open()
	c.held.extendAll()
	c.held.confirmAll(ctx)
}

// gate stops the fetch loops for a while.
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

// pass waits until the gate is open, or ctx ends.
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

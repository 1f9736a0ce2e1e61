// Package inline runs chats on their callers' connections and publishes the same events as for
// queued chats. The events are best effort. If they arrive faster than the broker can store them,
// callers are delayed briefly, and after that events are dropped.
package inline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// maxRecordBytes bounds the memory for events that are not stored yet, which are blocks and the
// replies of ended chats.
const maxRecordBytes = 64 << 20

// Causes of a call's cancellation.
var (
	errShutdown     = errors.New("the service is shutting down")
	errCancelled    = errors.New("the chat was cancelled")
	errDisconnected = errors.New("the caller disconnected")
)

// Options are the dependencies of a Runner. Tracing may be zero.
type Options struct {
	*parts.Parts

	// Set by tests. Zero selects the corresponding constant.
	checkEvery   time.Duration
	maxBacklog   int
	capacityWait time.Duration
	storeTime    time.Duration
	secondLook   time.Duration
}

// Runner runs inline chats. It is safe for concurrent use.
type Runner struct {
	o       Options
	budget  *publisher.Budget
	backlog *backlog
	writes  *semaphore // limits concurrent writes of events
	tracer  trace.Tracer

	mu      sync.Mutex
	limits  map[string]*limit // by route
	closed  bool
	calls   map[string]*call // by job ID
	records map[*record]struct{}
	work    sync.WaitGroup // calls and records

	reconnected chan struct{} // triggers a check of the running chats
	endChecks   context.CancelFunc
	checksEnded chan struct{}
}

// New returns a running Runner, which Close stops. When ctx ends, only the checks of running chats
// stop.
func New(ctx context.Context, o Options) *Runner {
	r := &Runner{
		o: o, limits: map[string]*limit{},
		budget: publisher.NewBudget(maxRecordBytes), backlog: &backlog{limit: cmp.Or(o.maxBacklog, maxBacklog)}, writes: &semaphore{free: maxWrites}, tracer: newTracer(o.Tracing.Provider),
		calls: map[string]*call{}, records: map[*record]struct{}{},
		reconnected: make(chan struct{}, 1), checksEnded: make(chan struct{}),
	}
	r.o.capacityWait = cmp.Or(o.capacityWait, capacityWait)
	r.o.storeTime = cmp.Or(o.storeTime, storeTime)
	r.o.secondLook = cmp.Or(o.secondLook, joblog.SecondLook)
	ctx, r.endChecks = context.WithCancel(ctx)
	o.Broker.OnReconnect(func(context.Context) {
		select {
		case r.reconnected <- struct{}{}:
		default: // a check is already due
		}
	})
	go r.keepChecking(ctx, cmp.Or(o.checkEvery, checkEvery))
	return r
}

func (r *Runner) limit(route string) *limit {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.limits[route]
	if l == nil {
		l = &limit{metrics: r.o.Metrics.Route(subject.Chat, route)}
		r.limits[route] = l
	}
	return l
}

// limit bounds the inline calls of one route in this process. Excess calls are refused at once,
// because queueing them would hold connections open. Callers that want a queue send a request ID or
// respond-async.
type limit struct {
	calls   atomic.Int64
	metrics *telemetry.RouteMetrics
}

func (l *limit) acquire(maxCalls int) bool {
	if l.calls.Add(1) <= int64(maxCalls) {
		return true
	}
	l.calls.Add(-1)
	return false
}

func (l *limit) full(maxCalls int) bool { return l.calls.Load() >= int64(maxCalls) }

func (l *limit) release() { l.calls.Add(-1) }

// HandlePeerNotification handles a peer notification. If the notification reports that a chat was
// cancelled, it stops that chat. It does not block. If a notification is lost, the next check
// detects the cancel.
func (r *Runner) HandlePeerNotification(s joblog.Summary) {
	if s.Name.Kind != subject.Chat || s.Status != task.StatusWord(genbusv1.JobStatus_JOB_STATUS_CANCELLED) {
		return
	}
	r.cancelled(s.Name)
}

// cancelled stops a chat that was cancelled in the log.
func (r *Runner) cancelled(n subject.JobName) {
	r.mu.Lock()
	c := r.calls[n.ID]
	r.mu.Unlock()
	if c != nil && c.req.Tenant == n.Tenant {
		c.cancel(errCancelled)
	}
}

// cutGrace is how long Close waits after cancelling the calls, and again after cancelling the
// writes of events.
const cutGrace = 2 * time.Second

// Close refuses new chats and waits until the running ones have ended and their events are stored.
// If ctx ends first, Close cancels the calls, drops the events that are not stored 2 s later, and
// returns an error. Checks against the log continue until Close returns.
func (r *Runner) Close(ctx context.Context) error {
	defer func() {
		r.endChecks()
		<-r.checksEnded
	}()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.backlog.close()
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	r.cutCalls()
	if !within(done, cutGrace) {
		r.cutRecords()
		if !within(done, cutGrace) {
			return fmt.Errorf("inline chats did not end: %w", context.Cause(ctx))
		}
	}
	return fmt.Errorf("the grace period ended with running calls: inline chats were cut off: %w", context.Cause(ctx))
}

func (r *Runner) cutCalls() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		c.cancel(errShutdown)
	}
}

func (r *Runner) cutRecords() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rec := range r.records {
		rec.cancel(errShutdown)
	}
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

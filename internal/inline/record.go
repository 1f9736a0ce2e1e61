package inline

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream/chat"
)

const (
	// patience bounds each step that the terminal event can do without: flushing the last chunks,
	// and storing or deleting the reply outside the event.
	patience = 10 * time.Second
	// storeTime bounds the time to store the first event and, separately, the time to store
	// everything else after the chat ends, including a retry of the first event. It is long because
	// a chat may wait for the events of many others.
	storeTime = 30 * time.Second
	// capacityWait bounds a chat's wait for capacity before it begins and, separately, the total
	// wait of its blocks.
	capacityWait = 2 * time.Second
	// beginAfter is the delay before the first event is stored. Without it, the write would delay
	// the start of the reply.
	beginAfter = 20 * time.Millisecond
)

// eventsOfRecord is the number of job events per inline chat.
const eventsOfRecord = 2

// errPatience is the cause if a write of events times out.
var errPatience = errors.New("waited too long for the events of an inline chat")

// errMemory reports that a reply was dropped because of maxRecordBytes.
var errMemory = errors.New("the events of inline chats use too much memory")

type outcome struct {
	from  pool.UpstreamKey // the upstream key that served it
	reply []byte           // set by Complete; a stream's reply is assembled from its blocks
	fault *errcode.Error   // nil for a complete reply
}

// record publishes the events of one inline chat in the background. The caller of the chat only
// adds blocks to buffers. The methods for the caller do nothing on a nil record.
type record struct {
	r      *Runner
	ctx    context.Context // outlives the caller
	cancel context.CancelCauseFunc
	tenant string
	first  task.Event
	ended  chan struct{} // closed when outcome and giveUp are set

	// known is the sequence of the last known event in the chat's log, or 0 until the first event
	// is confirmed.
	known atomic.Uint64
	// unlogged is true if the log has no events of the chat and will get none before the chat ends.
	// This happens if the first event was not stored or the log was lost.
	unlogged atomic.Bool

	// Owned by the caller until ended is closed, then by run.
	writer    *publisher.ChunkWriter // nil unless the reply is streamed
	assembler *chat.Assembler        // assembles a streamed reply
	waits     func() time.Duration   // the remainingWait method
	remaining time.Duration          // remaining time that blocks may wait for capacity
	outcome   outcome
	giveUp    time.Time // deadline for storing the rest
	held      int       // bytes of the budget that the whole reply uses
	partial   bool      // the budget had no capacity for the whole reply

	entry joblog.Entry // the last stored event
	err   error        // why an event was not stored
}

func (r *Runner) newRecord(c *call, streamed bool) *record {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.caller))
	item := c.checked.Item(ctx, c.req, time.Now())
	rec := &record{
		r: r, ctx: ctx, cancel: cancel, tenant: c.req.Tenant,
		first: task.Inline(item, task.Attempt{Upstream: c.route.Upstreams[0].Name, Deadline: c.begin.Add(c.route.Timeouts.Total)}),
		ended: make(chan struct{}), remaining: r.o.capacityWait,
	}
	if streamed {
		rec.writer = publisher.NewChunks(ctx, r.o.Broker, r.o.Encoder, r.o.Bodies, r.o.Metrics, c.req.Tenant, c.checked.ID, 1).Inline(r.budget)
		rec.assembler = chat.NewAssembler(0)
		rec.waits = rec.remainingWait
	}
	return rec
}

// remainingWait returns how long blocks may still wait for capacity. It returns 0 while the broker
// is unavailable.
func (c *record) remainingWait() time.Duration {
	if c.r.o.Broker.Trouble() != nil {
		return 0
	}
	return c.remaining
}

// mustWait reports whether add would wait for capacity for a block of n bytes.
func (c *record) mustWait(n int) bool {
	return c != nil && !c.writer.AcceptsNow(n) && c.remainingWait() > 0
}

func (c *record) add(ctx context.Context, block []byte) {
	if c == nil {
		return
	}
	c.remaining -= c.writer.AddWait(ctx, block, c.waits)
	_ = c.assembler.Add(block) // Reply returns the first error
}

// close records how the chat ended. Call it only once. A failed chat stores no reply.
func (c *record) close(o outcome) {
	if c == nil {
		return
	}
	if o.fault != nil {
		c.assembler = nil
	}
	c.held = len(o.reply)
	if c.assembler != nil {
		c.held = c.assembler.Size()
	}
	if !c.r.budget.Reserve(c.held) {
		o.reply, c.assembler, c.held, c.partial = nil, nil, 0, true
	}
	c.outcome, c.giveUp = o, time.Now().Add(c.r.o.storeTime)
	c.r.backlog.add()
	close(c.ended)
}

// start starts storing the events in the background.
func (c *record) start() {
	if c != nil {
		c.r.work.Go(c.run)
	}
}

func (r *Runner) removeRecord(rec *record) {
	rec.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, rec)
}

func (c *record) run() {
	defer c.r.removeRecord(c)
	if c.writer != nil {
		defer c.writer.Close()
	}
	c.awaitEnd(beginAfter)
	c.begin(c.ctx)
	select {
	case <-c.ended:
	case <-c.ctx.Done(): // the runner is closing, so no chat waits for capacity
		c.drop(eventsOfRecord, context.Cause(c.ctx))
		return
	}
	stored := false
	defer func() { c.r.backlog.remove(stored) }()
	defer c.r.budget.Release(c.held)
	ctx, cancel := context.WithDeadlineCause(c.ctx, c.giveUp, errPatience)
	defer cancel()
	if c.err != nil {
		c.begin(ctx)
	}
	if c.err != nil {
		c.drop(eventsOfRecord, c.err)
		return
	}
	if err := c.end(ctx); err != nil {
		c.drop(1, err)
		return
	}
	stored = true
}

// awaitEnd waits up to timeout for the chat to end.
func (c *record) awaitEnd(timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
	case <-c.ctx.Done():
	}
}

// drop counts and logs events that were not stored.
func (c *record) drop(events int, err error) {
	c.err = err
	c.r.o.Metrics.InlineDropped(events)
	c.r.o.Logger.Debug("dropped inline chat events", telemetry.KeyJobID, c.first.Job.GetId(), "events", events, telemetry.KeyError, err)
}

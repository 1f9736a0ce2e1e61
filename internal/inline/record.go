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
	// patience bounds one write of a chat's events. The last chunks count as one write.
	patience = 10 * time.Second
	// storeTime bounds the first event, and separately everything stored at the end, including a
	// retry of the first event. They may wait behind the events of many chats.
	storeTime = 30 * time.Second
	// capacityWait bounds a chat's wait for capacity before it begins, and again for all its blocks
	// together.
	capacityWait = 2 * time.Second
	// beginAfter is the delay of the first event, which otherwise would delay the first words of
	// the reply.
	beginAfter = 20 * time.Millisecond
)

// eventsOfRecord is the number of job events of an inline chat.
const eventsOfRecord = 2

// errPatience is the cause of a step's timeout.
var errPatience = errors.New("waited too long for the events of an inline chat")

// errMemory reports that a reply was not kept.
var errMemory = errors.New("the events of inline chats use too much memory")

type outcome struct {
	from  pool.UpstreamKey // the upstream key that served it
	reply []byte           // of Complete; a stream's reply is assembled from its blocks
	fault *errcode.Error   // nil for a complete reply
}

// record publishes the events of one inline chat in the background. Its caller only adds blocks to
// buffers. A nil record does nothing.
type record struct {
	r      *Runner
	ctx    context.Context // outlives the caller
	cancel context.CancelCauseFunc
	tenant string
	first  task.Event
	ended  chan struct{} // closed when outcome and giveUp are set

	// known is the sequence up to which the chat's log is known, or 0 until the first event is
	// confirmed.
	known atomic.Uint64
	// unlogged is true if the log has no events of the chat and gets none before its end: the first
	// event was not stored, or the log was lost.
	unlogged atomic.Bool

	// Owned by the caller until ended is closed, then by run.
	writer    *publisher.ChunkWriter // nil for a whole reply
	assembler *chat.Assembler        // of a stream
	waits     func() time.Duration   // waitLeft
	left      time.Duration          // remaining time that blocks may wait for capacity
	outcome   outcome
	giveUp    time.Time // deadline for storing the rest
	held      int       // bytes of the whole reply that are taken from the budget
	partial   bool      // the budget had no capacity for the whole reply

	entry joblog.Entry // the last stored event
	err   error        // of an event that was not stored
}

func (r *Runner) newRecord(c *call, streamed bool) *record {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.caller))
	item := c.checked.Item(ctx, c.req, time.Now())
	rec := &record{
		r: r, ctx: ctx, cancel: cancel, tenant: c.req.Tenant,
		first: task.Inline(item, task.Attempt{Upstream: c.route.Upstreams[0].Name, Deadline: c.begin.Add(c.route.Timeouts.Total)}),
		ended: make(chan struct{}), left: r.o.capacityWait,
	}
	if streamed {
		rec.writer = publisher.NewChunks(ctx, r.o.Broker, r.o.Encoder, r.o.Bodies, r.o.Metrics, c.req.Tenant, c.checked.ID, 1).Inline(r.budget)
		rec.assembler = chat.NewAssembler(0)
		rec.waits = rec.waitLeft
	}
	return rec
}

// waitLeft returns how long blocks may still wait for capacity: 0 while the broker is unavailable.
func (c *record) waitLeft() time.Duration {
	if c.r.o.Broker.Trouble() != nil {
		return 0
	}
	return c.left
}

// mustWait reports whether add would wait for capacity for a block of n bytes.
func (c *record) mustWait(n int) bool { return c != nil && !c.writer.TakesNow(n) && c.waitLeft() > 0 }

func (c *record) add(ctx context.Context, block []byte) {
	if c == nil {
		return
	}
	c.left -= c.writer.AddWait(ctx, block, c.waits)
	_ = c.assembler.Add(block) // the whole reply reports its first error
}

// close records how the chat ended. It is called once. A failed chat stores no reply.
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
	if !c.r.budget.Take(c.held) {
		o.reply, c.assembler, c.held, c.partial = nil, nil, 0, true
	}
	c.outcome, c.giveUp = o, time.Now().Add(c.r.o.storeTime)
	c.r.backlog.add()
	close(c.ended)
}

// start stores the events in the background.
func (c *record) start() {
	if c != nil {
		c.r.work.Go(c.run)
	}
}

func (r *Runner) forget(rec *record) {
	rec.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, rec)
}

func (c *record) run() {
	defer c.r.forget(c)
	if c.writer != nil {
		defer c.writer.Close()
	}
	c.awaitEnd(beginAfter)
	c.begin(c.ctx)
	select {
	case <-c.ended:
	case <-c.ctx.Done(): // the runner is closing: no chat waits for capacity
		c.drop(eventsOfRecord, context.Cause(c.ctx))
		return
	}
	stored := false
	defer func() { c.r.backlog.remove(stored) }()
	defer c.r.budget.Give(c.held)
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

// awaitEnd waits for the end of the chat, up to most.
func (c *record) awaitEnd(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
	case <-c.ctx.Done():
	}
}

// drop counts events that were not stored.
func (c *record) drop(events int, err error) {
	c.err = err
	c.r.o.Metrics.InlineDropped(events)
	c.r.o.Logger.Debug("dropped inline chat events", telemetry.KeyJobID, c.first.Job.GetId(), "events", events, telemetry.KeyError, err)
}

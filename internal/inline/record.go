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
	// patience is how long one write of a chat's events may take before it is given up, the last
	// chunks being one.
	patience = 10 * time.Second
	// storeTime is how long all that is stored at the end may take, with a first event that is
	// tried again then, and the first event: they may wait behind those of many chats.
	storeTime = 30 * time.Second
	// capacityWait is how long a chat waits for the capacity for its events: before it begins, and once more
	// for all its blocks together.
	capacityWait = 2 * time.Second
	// beginAfter is how long after its chat the first event is stored. What that costs is not
	// taken from the first words of the reply, whose caller waits for them.
	beginAfter = 20 * time.Millisecond
)

// eventsOfRecord is how many task events an inline chat has.
const eventsOfRecord = 2

// errPatience is why a step was given up.
var errPatience = errors.New("waited too long for the events of an inline chat")

// errMemory is why a reply is not kept.
var errMemory = errors.New("the events of inline chats use too much memory")

// outcome is how a chat ended.
type outcome struct {
	from  pool.UpstreamKey // who replied
	reply []byte           // of Complete; a stream's is put together from its blocks
	fault *errcode.Error   // nil: the reply is whole
}

// record publishes the events of one inline chat from a goroutine of its own.
// Its caller only adds blocks to buffers. A nil record does nothing.
type record struct {
	r      *Runner
	ctx    context.Context // outlives the caller
	cancel context.CancelCauseFunc
	tenant string
	first  task.Event
	ended  chan struct{} // closed when outcome and giveUp are set

	// known is the sequence up to which the chat's log is known: 0 as long as it is not
	// known whether the first event was stored.
	known atomic.Uint64
	// unlogged is true when the log has nothing of the chat and will not have anything
	// before its end: the first event was not stored, or the log was lost.
	unlogged atomic.Bool

	// The caller's, until ended is closed; then run's.
	writer    *publisher.ChunkWriter // nil for a whole reply
	assembler *chat.Assembler        // of a stream
	waits     func() time.Duration   // waitLeft
	left      time.Duration          // how long blocks may still wait for room
	outcome   outcome
	giveUp    time.Time // when what is not stored is given up
	held      int       // bytes of the whole reply, which are taken from the budget
	partial   bool      // there was no capacity for the whole reply

	entry joblog.Entry // the last one that was stored
	err   error        // what was not stored
}

// newRecord prepares the events of a call.
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

// waitLeft is how long blocks may still wait for capacity. A broker that is away is not waited for.
func (c *record) waitLeft() time.Duration {
	if c.r.o.Broker.Trouble() != nil {
		return 0
	}
	return c.left
}

// mustWait reports whether add has to wait for capacity for a block of n bytes.
func (c *record) mustWait(n int) bool { return c != nil && !c.writer.TakesNow(n) && c.waitLeft() > 0 }

// add adds the next block of the stream.
func (c *record) add(ctx context.Context, block []byte) {
	if c == nil {
		return
	}
	c.left -= c.writer.AddWait(ctx, block, c.waits)
	_ = c.assembler.Add(block) // its first error is that of the whole reply
}

// close says how the chat ended. It is called once. Where it failed, no event has its reply.
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

// start has the events stored.
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
	case <-c.ctx.Done(): // the runner closes: no chat waits for room any more
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

// awaitEnd waits for the end of the chat, but not for long.
func (c *record) awaitEnd(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
	case <-c.ctx.Done():
	}
}

// drop counts events that are not stored.
func (c *record) drop(events int, err error) {
	c.err = err
	c.r.o.Metrics.InlineDropped(events)
	c.r.o.Logger.Debug("dropped inline chat events", telemetry.KeyJobID, c.first.Job.GetId(), "events", events, telemetry.KeyError, err)
}

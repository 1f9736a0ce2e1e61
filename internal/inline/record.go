package inline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream/chat"
)

const (
	// patience is how long one step of a chat's events may take before it is
	// given up.
	patience = 10 * time.Second
	// flushTime is how long the terminal event waits for the last chunks.
	flushTime = 5 * time.Second
	// digestAt is how many bytes of blocks wait before they are put together.
	digestAt = 64 << 10
)

// eventsOfRecord is how many task events an inline chat has.
const eventsOfRecord = 2

// errPatience is why a step was given up.
var errPatience = errors.New("the events of an inline chat are not waited for any longer")

// outcome is how a chat ended.
type outcome struct {
	from  pool.Account   // who replied
	reply []byte         // of Complete; a stream's is put together from its blocks
	fault *errcode.Error // nil: the reply is whole
}

// record publishes the events of one inline chat from a goroutine of its own.
// Its caller only copies blocks into buffers. A nil record does nothing.
type record struct {
	r      *Runner
	ctx    context.Context // outlives the caller
	cancel context.CancelCauseFunc
	tenant string
	first  task.Event
	writer *publisher.ChunkWriter // nil for a whole reply
	signal chan struct{}          // blocks are worth a digest
	ended  chan outcome

	// known is the sequence up to which the chat's log is known: 0 as long as it is not
	// known whether the first event was stored.
	known atomic.Uint64
	// unlogged is true when the log has nothing of the chat and will not have anything
	// before its end: the first event was not stored, or the log was lost.
	unlogged atomic.Bool

	mu      sync.Mutex
	blocks  blockBuffer
	partial bool // something is missing, so there is no whole reply

	assembler *chat.Assembler // used by run alone
}

// newRecord prepares the events of a call; nil when chat.inline_events is off.
func (r *Runner) newRecord(c *call, streamed bool) *record {
	if !r.o.Config.Now().Chat.InlineEvents {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.caller))
	item := c.checked.Item(ctx, c.req, time.Now())
	rec := &record{
		r: r, ctx: ctx, cancel: cancel, tenant: c.req.Tenant,
		first:  task.Inline(item, task.Attempt{Upstream: c.route.Upstreams[0].Name, Deadline: c.begin.Add(c.route.Timeouts.Total)}),
		signal: make(chan struct{}, 1), ended: make(chan outcome, 1),
	}
	if streamed {
		rec.writer = publisher.NewChunks(ctx, r.o.Broker, r.o.Encoder, r.o.Bodies, r.o.Metrics, c.req.Tenant, c.checked.ID, 1).Inline(r.budget)
		rec.assembler = chat.NewAssembler(0)
	}
	return rec
}

// keep starts a record, unless too many are waiting to be stored. The caller
// holds mu.
func (r *Runner) keep(rec *record) bool {
	if len(r.records) >= maxRecords {
		r.o.Metrics.InlineDropped(eventsOfRecord)
		rec.abandon()
		return false
	}
	r.records[rec] = struct{}{}
	r.work.Go(rec.run)
	return true
}

// abandon ends a record that was never kept.
func (c *record) abandon() {
	if c != nil {
		c.cancel(errPatience)
	}
}

func (r *Runner) forget(rec *record) {
	rec.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, rec)
}

// add copies the next block of the stream.
func (c *record) add(block []byte) {
	if c == nil {
		return
	}
	c.writer.Add(block)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.partial {
		return
	}
	if !c.r.budget.Take(len(block)) {
		c.partial = true
		return
	}
	if c.blocks.add(block) >= digestAt {
		select {
		case c.signal <- struct{}{}:
		default:
		}
	}
}

// close says how the chat ended. It is called once.
func (c *record) close(o outcome) {
	if c == nil {
		return
	}
	if !c.r.budget.Take(len(o.reply)) {
		o.reply = nil
		c.mu.Lock()
		c.partial = true
		c.mu.Unlock()
	}
	c.ended <- o
}

func (c *record) run() {
	defer c.r.forget(c)
	entry, err := c.begin()
	c.began(entry, err)
	o, ok := c.collect()
	defer c.r.budget.Give(len(o.reply))
	if c.writer != nil {
		defer c.writer.Close()
	}
	if ok && err != nil {
		entry, err = c.begin()
	}
	switch {
	case !ok || err != nil:
		c.drop(eventsOfRecord, err)
	default:
		if err := c.end(entry, o); err != nil {
			c.drop(1, err)
		}
	}
}

func (c *record) drop(events int, err error) {
	c.r.o.Metrics.InlineDropped(events)
	c.r.o.Logger.Debug("events of an inline chat dropped", "job", c.first.Job.GetId(), "events", events, "error", err)
}

// begin stores the first event. No other writer knows the id, so a log that is not
// empty holds a write of ours that was not confirmed, or what followed it. Other replicas
// end a chat by its deadline, so a wrong clock writes none.
func (c *record) begin() (joblog.Entry, error) {
	if _, err := c.r.o.Broker.Clock().Now(); err != nil {
		return joblog.Entry{}, err
	}
	return c.commit(c.first, 0)
}

// began takes what became of the first event, for the checks of the running chat. Where the
// log has a later event already, it is left to the next check to read that: it may be a
// cancel.
func (c *record) began(entry joblog.Entry, err error) {
	switch {
	case err == nil && entry.Version() == c.first.Version():
		c.known.CompareAndSwap(0, entry.Seq) // unless a check has read more
	case err != nil && !errors.Is(err, joblog.ErrUncertain):
		c.unlogged.Store(true)
	}
}

// errNoCapacity says that the log is kept for the jobs that it has accepted.
var errNoCapacity = errors.New("the task log has no room for the events of inline chats")

func (c *record) commit(e task.Event, last uint64) (joblog.Entry, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, patience, errPatience)
	defer cancel()
	release, ok := c.r.o.Log.Capacity.ReserveEnd(ctx, e)
	if !ok {
		return joblog.Entry{}, errNoCapacity
	}
	defer release()
	return c.r.o.Log.CommitOrCurrent(ctx, e, last)
}

// collect puts the blocks together while they come, until the chat has ended. It
// is false when the runner gave the record up before.
func (c *record) collect() (outcome, bool) {
	for {
		select {
		case <-c.signal:
			c.digest()
		case o := <-c.ended:
			c.digest()
			return o, true
		case <-c.ctx.Done():
			c.digest()
			return outcome{}, false
		}
	}
}

// digest gives the waiting blocks to the assembler.
func (c *record) digest() {
	c.mu.Lock()
	work := c.blocks
	c.blocks = blockBuffer{}
	c.mu.Unlock()
	c.r.budget.Give(len(work.data))
	defer work.release()
	for block := range work.each {
		if err := c.assembler.Add(block); err != nil {
			return // Reply says it again
		}
	}
}

// end stores the terminal event and its feed copy.
func (c *record) end(entry joblog.Entry, o outcome) error {
	var chunks uint64
	if c.writer != nil {
		ctx, cancel := context.WithTimeoutCause(c.ctx, flushTime, errPatience)
		chunks, _ = c.writer.Flush(ctx) // what is lost has been counted; readers see the gap
		cancel()
	}
	if !entry.Terminal() {
		event, err := c.terminal(entry, o, chunks)
		if err != nil {
			return err
		}
		if entry, err = c.commit(event, entry.Seq); err != nil {
			return err
		}
		c.discardReply(event, entry)
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, patience, errPatience)
	defer cancel()
	return c.r.o.Log.Finish(ctx, entry)
}

func (c *record) terminal(entry joblog.Entry, o outcome, chunks uint64) (task.Event, error) {
	job, ok := entry.Job.(*genbusv1.Chat)
	if !ok {
		return task.Event{}, fmt.Errorf("the log of %s holds no chat", entry.Job.GetId())
	}
	now := time.Now()
	switch {
	case o.fault == nil:
		return task.Replied(job, now, c.reply(job.GetId(), o, chunks))
	case o.fault.Code == errcode.CallerGone || o.fault.Code == errcode.Cancelled:
		return task.Cancelled(job, now, o.fault.TaskError())
	default:
		return task.FailedChat(job, now, chunks, o.fault.TaskError())
	}
}

// reply is the whole reply for the terminal event. Where it cannot be had, the
// event says completed without it: that is what happened.
func (c *record) reply(id string, o outcome, chunks uint64) task.Reply {
	out := task.Reply{Chunks: chunks, Upstream: o.from.Upstream, Key: o.from.Key}
	raw, err := c.whole(o)
	if err == nil && !c.fits(len(raw)) {
		out.Usage = usage(raw)
		out.Ref, err = c.checkIn(id, raw)
	} else if err == nil {
		out.JSON, out.Usage = raw, usage(raw)
	}
	if err != nil {
		c.r.o.Metrics.InlineDropped(1)
		c.r.o.Logger.Warn("the reply of an inline chat is missing in its event", "job", id, "error", err)
	}
	return out
}

// fits reports whether a reply may be part of the terminal event, whose commit asks for the
// room of all of it.
func (c *record) fits(bytes int) bool {
	if int64(bytes) > int64(c.r.o.Config.Now().Limits.ClaimCheckBytes) {
		return false
	}
	release, ok := c.r.o.Log.Capacity.ReserveReply(c.ctx, bytes)
	if ok {
		release()
	}
	return ok
}

func (c *record) whole(o outcome) ([]byte, error) {
	c.mu.Lock()
	partial := c.partial
	c.mu.Unlock()
	switch {
	case partial:
		return nil, errors.New("the events of inline chats hold too much memory")
	case c.assembler == nil:
		return o.reply, nil
	default:
		return c.assembler.Reply()
	}
}

func (c *record) checkIn(id string, raw []byte) (*genbusv1.BlobRef, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, patience, errPatience)
	defer cancel()
	ref, err := c.r.o.Bodies.Put(ctx, c.tenant, publisher.ReplyBody(id), raw)
	if err != nil {
		return nil, err
	}
	return publisher.BlobRef(ref), nil
}

// discardReply removes the stored reply of an event that was not written, because the
// log has another end.
func (c *record) discardReply(event task.Event, current joblog.Entry) {
	ours, _ := event.Job.(*genbusv1.Chat)
	now, _ := current.Job.(*genbusv1.Chat)
	if ours.GetReplyRef() == nil || ours.GetReplyRef().GetName() == now.GetReplyRef().GetName() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, patience, errPatience)
	defer cancel()
	if err := c.r.o.Bodies.Delete(ctx, publisher.BodyOf(ours.GetReplyRef())); err != nil {
		c.r.o.Logger.Warn("a stored reply that no event names stays until it expires", "object", ours.GetReplyRef().GetName(), "error", err)
	}
}

// lax reads what upstreams send.
var lax = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// usage is what a reply says about its cost, or nil.
func usage(raw []byte) *genbusv1.Usage {
	var reply struct {
		Usage jsontext.Value `json:"usage"`
	}
	if err := json.Unmarshal(raw, &reply, lax); err != nil {
		return nil
	}
	return body.ParseUsage(reply.Usage)
}

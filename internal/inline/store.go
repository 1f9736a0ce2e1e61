package inline

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// This file stores all events of a record except the chunks, which its writer stores. For each
// chat, it stores the first event, then the terminal event, and then the feed copy and usage. If
// another replica has already ended the chat, its terminal event is the one that is copied.

// begin stores the first event. No other writer knows the chat's ID, so a log that is not empty
// starts with an unconfirmed write of ours. While this replica's clock is wrong, begin stores
// nothing, because other replicas end chats at the deadline that the event sets.
func (c *record) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.r.o.storeTime, errPatience)
	defer cancel()
	if _, c.err = c.r.o.Broker.Clock().Now(); c.err == nil {
		c.entry, c.err = c.commit(ctx, stageBegin, c.first, 0)
	}
	c.began()
}

// began records for the checks whether the first event was stored. If the log already has a later
// event, such as a cancel, the next check reads it.
func (c *record) began() {
	switch {
	case c.err == nil && c.entry.Version() == c.first.Version():
		c.known.CompareAndSwap(0, c.entry.Seq) // unless a check has already read more
	case c.err != nil && !errors.Is(c.err, joblog.ErrUncertain):
		c.unlogged.Store(true)
	}
}

// errNoCapacity reports that the remaining log capacity is reserved for accepted jobs.
var errNoCapacity = errors.New("the log has no capacity for the events of inline chats")

func (c *record) commit(ctx context.Context, s stage, e task.Event, last uint64) (joblog.Entry, error) {
	if !c.r.writes.acquire(ctx, s) {
		return joblog.Entry{}, context.Cause(ctx)
	}
	defer c.r.writes.release()
	release, ok := c.r.o.Log.Capacity.ReserveEnd(ctx, e)
	if !ok {
		return joblog.Entry{}, errNoCapacity
	}
	defer release()
	return c.r.o.Log.CommitOrCurrent(ctx, e, last)
}

// end stores the terminal event after the last chunks, and then its feed copy and usage.
func (c *record) end(ctx context.Context) error {
	chunks := c.flush(ctx)
	if !c.entry.Terminal() {
		event, err := c.terminal(ctx, chunks)
		if err != nil {
			return err
		}
		if c.entry, err = c.commit(ctx, stageEnd, event, c.entry.Seq); err != nil {
			return err
		}
		c.discardReply(ctx, event, c.entry)
	}
	if !c.r.writes.acquire(ctx, stageFinish) {
		return context.Cause(ctx)
	}
	defer c.r.writes.release()
	return c.r.o.Log.Finish(ctx, c.entry)
}

// flush waits for the last chunks and returns the number of blocks. The number includes lost
// blocks, which the metrics already count and readers see as a gap.
func (c *record) flush(ctx context.Context) uint64 {
	if c.writer == nil {
		return 0
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	chunks, err := c.writer.Flush(ctx)
	c.err = err
	return chunks
}

func (c *record) terminal(ctx context.Context, chunks uint64) (task.Event, error) {
	job, ok := c.entry.Job.(*genbusv1.Chat)
	if !ok {
		return task.Event{}, fmt.Errorf("the log of %s has no chat", c.entry.Job.GetId())
	}
	now := time.Now()
	switch fault := c.outcome.fault; {
	case fault == nil:
		return task.Replied(job, now, c.reply(ctx, job.GetId(), chunks))
	case fault.Code == errcode.CallerGone || fault.Code == errcode.Cancelled:
		return task.Cancelled(job, now, fault.TaskError())
	default:
		return task.FailedChat(job, now, chunks, fault.TaskError())
	}
}

// reply returns the whole reply for the terminal event. If the reply cannot be stored, the event
// still has the completed status but no reply.
func (c *record) reply(ctx context.Context, id string, chunks uint64) task.Reply {
	out := task.Reply{Chunks: chunks, Upstream: c.outcome.from.Upstream, Key: c.outcome.from.Key}
	raw, err := c.whole()
	if err == nil && !c.fits(ctx, len(raw)) {
		out.Usage = usage(raw)
		out.Ref, err = c.checkIn(ctx, id, raw)
	} else if err == nil {
		out.JSON, out.Usage = raw, usage(raw)
	}
	if err != nil {
		c.err = err
		c.r.o.Metrics.InlineDropped(1)
		c.r.o.Logger.Warn("could not store inline chat reply, omitted from event", telemetry.KeyJobID, id, telemetry.KeyError, err)
	}
	return out
}

// fits reports whether the terminal event may contain the reply. It does not keep log capacity
// reserved, because the commit reserves it again.
func (c *record) fits(ctx context.Context, bytes int) bool {
	if int64(bytes) > min(int64(c.r.o.Config.Now().Limits.ClaimCheckBytes), c.r.o.Broker.MaxPayload()/4) {
		return false
	}
	release, ok := c.r.o.Log.Capacity.ReserveReply(ctx, bytes)
	if ok {
		release()
	}
	return ok
}

func (c *record) whole() ([]byte, error) {
	switch {
	case c.partial:
		return nil, errMemory
	case c.assembler == nil:
		return c.outcome.reply, nil
	default:
		return c.assembler.Reply()
	}
}

func (c *record) checkIn(ctx context.Context, id string, raw []byte) (*genbusv1.BlobRef, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	ref, err := c.r.o.Bodies.Put(ctx, c.tenant, publisher.ReplyBody(id), raw)
	if err != nil {
		return nil, err
	}
	return publisher.BlobRef(ref), nil
}

// discardReply removes the reply that was stored for event if the log has a different terminal
// event.
func (c *record) discardReply(ctx context.Context, event task.Event, current joblog.Entry) {
	ours, _ := event.Job.(*genbusv1.Chat)
	now, _ := current.Job.(*genbusv1.Chat)
	if ours.GetReplyRef() == nil || ours.GetReplyRef().GetName() == now.GetReplyRef().GetName() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	if err := c.r.o.Bodies.Delete(ctx, publisher.BodyOf(ours.GetReplyRef())); err != nil {
		c.r.o.Logger.Warn("could not delete unreferenced reply, left to expire", "object", ours.GetReplyRef().GetName(), "error", err)
	}
}

// usage returns the usage of a reply, which the chat client has validated.
func usage(raw []byte) *genbusv1.Usage { return body.ParseUsage(body.Trusted(raw).Member("usage")) }

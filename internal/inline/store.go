package inline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// This file stores everything of a record except the chunks, which its writer stores. Each write
// waits for the previous one: first event, terminal event, then feed copy and usage. If another
// replica has ended the chat, its end is the one to copy. Chats do not wait for each other's
// events.

// begin stores the first event. A log that is not empty holds an unconfirmed write of ours, or what
// followed it, because no other writer knows the ID. A replica with a wrong clock writes nothing:
// other replicas end chats by their deadline.
func (c *record) begin(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.r.o.storeTime, errPatience)
	defer cancel()
	if _, c.err = c.r.o.Broker.Clock().Now(); c.err == nil {
		c.entry, c.err = c.commit(ctx, stageBegin, c.first, 0)
	}
	c.began()
}

// began records the result of the first event for the checks of the running chat. If the log has a
// later event already, perhaps a cancel, the next check reads it.
func (c *record) began() {
	switch {
	case c.err == nil && c.entry.Version() == c.first.Version():
		c.known.CompareAndSwap(0, c.entry.Seq) // unless a check has read more
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
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	release, ok := c.r.o.Log.Capacity.ReserveEnd(ctx, e)
	if !ok {
		return joblog.Entry{}, errNoCapacity
	}
	defer release()
	return c.r.o.Log.CommitOrCurrent(ctx, e, last)
}

// end stores the terminal event after the last chunks, then its feed copy and usage.
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
	ctx, cancelWrite := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancelWrite()
	return c.r.o.Log.Finish(ctx, c.entry)
}

// flush waits for the last chunks and returns the number of blocks. Lost blocks are counted
// already, and readers see the gap.
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

// reply returns the whole reply for the terminal event. If it cannot be stored, the event still
// says completed, without a reply.
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

// fits reports whether the terminal event may contain the reply. The commit reserves the capacity
// again.
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

// discardReply removes the stored reply of an event that was not written because the log has
// another end.
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

// lax accepts the JSON that upstreams send.
var lax = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

func usage(raw []byte) *genbusv1.Usage {
	var reply struct {
		Usage jsontext.Value `json:"usage"`
	}
	if err := json.Unmarshal(raw, &reply, lax); err != nil {
		return nil
	}
	return body.ParseUsage(reply.Usage)
}

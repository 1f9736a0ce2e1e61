package chat

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// reply is the result of one attempt.
type reply struct {
	json   []byte
	chunks uint64
	from   pool.UpstreamKey
}

// replied ends the chat with its reply. The reply has been paid for, so replied retries the commit
// until the process stops its work, and does not call the upstream again.
func (j *job) replied(r reply) error {
	out := task.Reply{JSON: r.json, Chunks: r.chunks, Upstream: r.from.Upstream, Key: r.from.Key}
	// The chat client has already validated the reply.
	out.Usage = body.ParseUsage(body.Trusted(r.json).Member("usage"))
	stored := len(r.json) > publisher.ClaimCheckOf(j.runner.Holder.Broker)
	if !stored {
		release, ok := j.runner.Holder.Log.Capacity.ReserveReply(j.ctx, len(r.json))
		if stored = !ok; ok {
			defer release()
		}
	}
	if stored {
		if err := j.store(r, &out); err != nil {
			return err
		}
	}
	replied := func() (task.Event, error) { return task.Replied(j.chat(), time.Now(), out) }
	err := j.held.PersistFitting(j.ctx, replied)
	// The server's max_payload may have been lowered since the connection was made.
	if errors.Is(err, broker.ErrTooLarge) && out.Ref == nil {
		if err := j.store(r, &out); err != nil {
			return err
		}
		err = j.held.Persist(j.ctx, replied)
	}
	// Another replica has ended or continued the chat, so no event will reference our reply.
	if errors.Is(err, hold.ErrNotOurs) || j.held.Entry().Terminal() && j.chat().GetReplyRef().GetName() != out.Ref.GetName() {
		j.runner.Holder.Discard(j.ctx, out.Ref)
	}
	return err
}

// store writes a long reply to the object store. If a NATS limit forbids it and the reply fits in a
// dead letter, store fails the job and keeps the reply in a dead letter. It retries all other
// failures, so that an operator can raise the limit. After the deadline, store also fails the job
// if any permanent error or a full stream prevents the write.
func (j *job) store(r reply, out *task.Reply) error {
	n, h := j.held.Name(), j.runner.Holder
	for {
		ref, err := h.Bodies.Put(context.WithoutCancel(j.ctx), n.Tenant, publisher.ReplyBody(n.ID), r.json)
		if err == nil {
			out.JSON, out.Ref = nil, publisher.BlobRef(ref)
			return nil
		}
		fits := int64(len(r.json)) <= h.Broker.MaxPayload()/2
		if broker.Permanent(err) && !errors.Is(err, broker.ErrRefused) && fits || j.late() && (broker.Permanent(err) || streamFull(err)) {
			return j.endUnstored(r, err)
		}
		j.held.Logger().Warn("could not store long reply, retrying", telemetry.KeyError, err)
		if broker.Wait(h.Working, hold.Retry) != nil {
			return hold.Return()
		}
	}
}

// streamFull reports whether a stream has reached its own limit. It returns false for a full server
// or disk, which may be temporary.
func streamFull(err error) bool {
	return errors.Is(err, broker.ErrFull) && !errors.Is(err, broker.ErrStorage)
}

func (j *job) late() bool { return time.Now().After(j.chat().GetExecution().GetDeadline().AsTime()) }

// endUnstored fails the chat and keeps the paid reply in a dead letter. If the reply does not fit,
// the dead letter has only its digest.
func (j *job) endUnstored(r reply, cause error) error {
	f := errcode.New(errcode.ReplyNotStored, "job %s: upstream %s replied, but NATS refused to store the %d-byte reply: %w",
		j.held.Name().ID, r.from.Upstream, len(r.json), cause)
	for digest := false; ; {
		err := j.held.BuryReply(j.ctx, f, r.json, digest)
		if err == nil {
			return j.fail(r.chunks, f)
		}
		digest = errors.Is(err, broker.ErrTooLarge) || j.late() && streamFull(err)
		j.held.Logger().Error("could not store dead letter for reply, retrying", telemetry.KeyError, err)
		if broker.Wait(j.runner.Holder.Working, hold.Retry) != nil {
			return hold.Return()
		}
	}
}

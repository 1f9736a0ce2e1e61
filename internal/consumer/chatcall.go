package consumer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// flushTimeout bounds the wait for the broker to confirm the last chunks. The
// reply itself is in the terminal event, so it does not wait for ever.
const flushTimeout = time.Second

// reply is what one attempt brought.
type reply struct {
	json   []byte
	chunks uint64
	from   pool.Account
}

// attempt begins the next attempt, and calls the upstream until it has answered or has
// cost the attempt. again is true when another one is to be begun. A request that
// cannot be read costs none; one that waits for room has not tried an upstream either.
func (j *chatJob) attempt() (out Outcome, again bool) {
	room, ok := j.roomForSubmission(j.ctx, j.entry, j.Name)
	if !ok {
		return Hold(j.beforeLimits(time.Now().Add(jittered(roomAgain, 0.2)))), false
	}
	defer room() // where it was not begun
	lease, out, ok := j.reserve()
	if !ok {
		return out, false
	}
	defer lease.Release() // where it was not called
	request, err := j.request()
	if errors.Is(err, broker.ErrBodyLost) {
		return j.fail(0, fault.New(fault.InputLost, "job %s: %w", j.name.ID, err)), false
	}
	if err != nil {
		j.Logger.Warn("the request's body could not be read", j.attrs("error", err)...)
		return j.notNow(), false
	}
	if out, ok := j.start(lease.Account(), room); !ok {
		return out, false
	}
	for refusals := 0; ; refusals++ {
		r, err := j.call(request, lease)
		if lease = nil; err == nil {
			return j.replied(r), false
		}
		if j.ctx.Err() != nil {
			return j.cutOff(), false
		}
		f := routes.Fault(err)
		switch {
		case refusedForNow(err) && j.waitForUpstream(f, refusals):
			j.renewRoute() // its keys may have been replaced meanwhile
			continue       // nothing was begun: the attempt is not used up
		case j.fetching.Err() != nil && refusedForNow(err):
			return Nak(), false
		case f.Meaning().Retry && int(j.chat().GetAttempt()) < j.Config.Now().Chat.MaxAttempts:
			if j.waitForUpstream(f, refusals) {
				return Outcome{}, true
			}
			return j.stopped(r, f), false
		default:
			return j.fail(r.chunks, f), false
		}
	}
}

// stopped is the outcome when there was no time for another attempt: the process
// stops, the chat is not ours any more, or its deadline is too near.
func (j *chatJob) stopped(r reply, f *fault.Error) Outcome {
	switch {
	case j.ctx.Err() != nil:
		return j.cutOff()
	case j.fetching.Err() != nil:
		return Nak()
	default:
		return j.fail(r.chunks, f)
	}
}

// refusedForNow reports whether the upstream certainly did not begin with the
// call, and may later.
func refusedForNow(err error) bool {
	var up *upstream.Error
	return errors.As(err, &up) && !up.Final && (!up.Written || up.Said && up.HTTPStatus == 429)
}

// waitForUpstream waits as long as the upstream asked, or 1 s doubled with each
// refusal up to 30 s. False: the deadline would pass, or the process stops.
func (j *chatJob) waitForUpstream(f *fault.Error, refusals int) bool {
	d := f.RetryAfter
	if d == 0 {
		d = jittered(min(time.Second<<min(refusals, 5), 30*time.Second), 0.2)
	}
	now, wrong := j.Broker.Clock().Now()
	if deadline := j.entry.Job.GetExecution().GetDeadline(); deadline != nil && wrong == nil && now.Add(d).After(deadline.AsTime()) {
		return false
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(j.fetching, cancel)()
	return broker.Wait(ctx, d) == nil
}

// request is the JSON for the upstream: the client's own bytes, but for the wish
// for usage in a stream.
func (j *chatJob) request() ([]byte, error) {
	raw, err := j.body.read(j.ctx, j.Bodies, j.item, time.Now())
	if err != nil {
		return nil, err
	}
	if j.item.GetStream() && j.QueuedUsage {
		return chat.AskForUsage(raw), nil
	}
	return raw, nil
}

func (j *chatJob) call(request []byte, lease *pool.Lease) (reply, error) {
	ctx, span := j.startCall(j.ctx, "genbus.chat.call", j.name, j.Name, j.chat().GetExecution())
	r, err := j.callOnce(ctx, pool.ChatRequest{
		Job: poolJob(j.name), Model: j.item.GetModel(), Body: request, Queued: true, Lease: lease, Tried: &j.tried,
	})
	endSpan(span, err)
	return r, err
}

func (j *chatJob) callOnce(ctx context.Context, request pool.ChatRequest) (reply, error) {
	if j.item.GetStream() {
		return j.stream(ctx, request)
	}
	r, err := j.Caller.Complete(ctx, request)
	if err != nil {
		return reply{}, err
	}
	return reply{json: r.Raw, from: r.Account}, nil
}

// stream publishes every block as it comes, and assembles the reply.
func (j *chatJob) stream(ctx context.Context, request pool.ChatRequest) (reply, error) {
	s, err := j.Caller.Stream(ctx, request)
	if err != nil {
		return reply{}, err
	}
	defer s.Close()
	chunks := publisher.NewChunks(j.ctx, j.Broker, j.Encoder, j.Bodies, j.Metrics, j.name.Tenant, j.name.ID, j.chat().GetAttempt())
	defer chunks.Close()
	whole := chat.NewAssembler(0)
	for {
		block, err := s.Next()
		if err != nil {
			count := j.flush(chunks)
			if !errors.Is(err, io.EOF) {
				return reply{chunks: count}, err
			}
			json, err := whole.Reply()
			return reply{json: json, chunks: count, from: s.Account()}, err
		}
		chunks.Add(block.Data)
		if err := whole.Add(block.Data); err != nil {
			return reply{chunks: j.flush(chunks)}, err
		}
	}
}

// flush waits until the broker has all chunks. What it does not get stands in
// the terminal event all the same; a reader is told of the gap.
func (j *chatJob) flush(chunks *publisher.ChunkWriter) uint64 {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), flushTimeout)
	defer cancel()
	count, err := chunks.Flush(ctx)
	if err != nil {
		j.Logger.Warn("chunks were not confirmed", j.attrs("error", err)...)
	}
	return count
}

// replied ends the chat with its reply.
func (j *chatJob) replied(r reply) Outcome {
	out := task.Reply{JSON: r.json, Chunks: r.chunks, Upstream: r.from.Upstream, Key: r.from.Key}
	if c, err := body.ParseCompletion(r.json); err == nil {
		out.Usage = c.GetUsage()
	}
	stored := len(r.json) > publisher.ClaimCheck
	if !stored {
		release, ok := j.Log.RoomForReply(j.ctx, len(r.json))
		if stored = !ok; ok {
			defer release()
		}
	}
	for stored && out.Ref == nil {
		ref, err := j.Bodies.Put(context.WithoutCancel(j.ctx), j.name.Tenant, publisher.ReplyBody(j.name.ID), r.json)
		if err == nil {
			out.JSON, out.Ref = nil, publisher.BlobRef(ref)
			break
		}
		j.Logger.Warn("a long reply could not be stored", j.attrs("error", err)...)
		if broker.Wait(j.working, retryLog) != nil {
			return Nak()
		}
	}
	e, err := task.Replied(j.chat(), time.Now(), out)
	outcome := j.end(e, err)
	// An end, or an attempt, of another replica: ours is not stored, and never will be.
	if outcome.verb == drop || j.entry.Terminal() && j.chat().GetReplyRef().GetName() != out.Ref.GetName() {
		j.discard(j.ctx, out.Ref)
	}
	return outcome
}

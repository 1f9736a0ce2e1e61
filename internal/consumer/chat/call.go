package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// flushTimeout bounds the wait for the broker to confirm the last chunks. It is short because the
// terminal event contains the whole reply.
const flushTimeout = time.Second

// attempt begins the next attempt and calls the upstream until it answers or the attempt is used
// up. It returns nil if another attempt follows. Neither an unreadable request nor a wait for
// capacity uses up an attempt.
func (j *job) attempt() error {
	capacity, ok := j.held.ReserveSubmission(j.ctx)
	if !ok {
		return hold.Until(j.beforeLimits(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2))))
	}
	defer capacity() // in case no attempt begins
	slot, err := j.reserve()
	if err != nil {
		return err
	}
	defer slot.Release() // in case the upstream is not called
	request, err := j.held.Request.Body(j.ctx)
	if errors.Is(err, broker.ErrBodyLost) {
		return j.fail(0, errcode.New(errcode.InputLost, "job %s: %w", j.held.Name().ID, err))
	}
	if err != nil {
		return fmt.Errorf("read the request's body: %w", err)
	}
	if j.uncalled() {
		capacity() // the earlier commit used its own reservation
	} else if err := j.start(slot.UpstreamKey(), capacity); err != nil {
		return err
	}
	j.called = j.chat().GetAttempt()
	for refusals := 0; ; refusals++ {
		r, err := j.call(request, slot)
		if slot = nil; err == nil {
			j.failing.Store(nil)
			return j.replied(r)
		}
		if j.ctx.Err() != nil {
			return hold.Return() // unless cutOff decides otherwise
		}
		j.noteFailure(err)
		f := routes.Fault(err)
		switch stopping := j.runner.Holder.Fetching; {
		case refusedForNow(err) && j.waitForUpstream(f, refusals):
			j.renewRoute() // the keys may have changed during the wait
			continue       // the upstream began nothing, so the attempt is not used up
		case stopping.Err() != nil && refusedForNow(err):
			return hold.Return()
		case f.TimedOut && !j.route.RetryTimeouts && int(j.chat().GetAttempt()) < j.maxAttempts:
			// The upstream's text may be as long as a message can be, which would cut off the advice.
			f.Message = errcode.Clip(f.Message, 1<<10) + "; the upstream may charge for the call, so it was not repeated; set retry_timeouts: true on route " + j.route.Name + " to repeat such calls"
			return j.fail(r.chunks, f)
		case (f.Meaning().Retry || maybeProxy(err)) && int(j.chat().GetAttempt()) < j.maxAttempts:
			if j.waitForUpstream(f, refusals) {
				return nil
			}
			if j.ctx.Err() != nil || stopping.Err() != nil {
				return hold.Return()
			}
			return j.fail(r.chunks, f) // the deadline is too near for another attempt
		default:
			return j.fail(r.chunks, f)
		}
	}
}

// reserve reserves an upstream slot before the chat counts as started.
func (j *job) reserve() (*pool.Slot, error) {
	j.tried.SentBefore = j.chat().GetAttempt() > 0
	slot, err := j.route.Caller.Reserve(&j.tried, j.waiter)
	var busy *pool.BusyError
	switch {
	case err == nil:
		return slot, nil
	case errors.As(err, &busy):
		return nil, hold.Until(j.beforeLimits(hold.Soon(busy.Until)))
	default:
		return nil, hold.For(hold.Retry)
	}
}

// beforeLimits returns at, or the chat's first limit if that is earlier. As in tooLate, expires_at
// and the queue deadline apply only before the first call. Including a limit that has already
// passed would make the chat loop without waiting.
func (j *job) beforeLimits(at time.Time) time.Time {
	c := j.chat()
	x := c.GetExecution()
	limits := []*timestamppb.Timestamp{x.GetDeadline()}
	if x.GetFirstSubmitAt() == nil {
		limits = append(limits, c.GetExpiresAt(), x.GetQueueDeadline())
	}
	return hold.Earliest(at, limits...)
}

// uncalled reports whether this holder committed the last attempt but has not called the upstream,
// because it received no answer to the commit. Such an attempt continues.
func (j *job) uncalled() bool {
	return j.held.Record.Unconfirmed(j.held.Entry()) && j.called != j.chat().GetAttempt()
}

// start commits the next attempt before the upstream is called, using the reserved capacity.
func (j *job) start(a pool.UpstreamKey, capacity joblog.Release) error {
	defer capacity()
	now, err := j.runner.Holder.Broker.Clock().Now()
	if err != nil {
		return j.held.Unjudged()
	}
	e, err := task.Started(j.chat(), now, task.Attempt{
		Upstream: a.Upstream, Key: a.Key,
		Deadline: now.Add(j.route.Timeouts.Total * time.Duration(j.maxAttempts)),
	})
	return j.held.Next(j.ctx, e, err)
}

// refusedForNow reports whether the upstream certainly did not process the call but may accept it
// later.
func refusedForNow(err error) bool {
	var up *upstream.Error
	return errors.As(err, &up) && !up.Final && (!up.Written || up.Reported && up.HTTPStatus == 429)
}

// maybeProxy reports whether a refusal of our key may come from a proxy, because its body is no error.
// The next attempt uses another key.
func maybeProxy(err error) bool {
	var up *upstream.Error
	return errors.As(err, &up) && up.Denial != upstream.NotDenied && !up.Reported
}

// waitForUpstream waits for the delay that the upstream requested. By default it waits 1 s, doubled
// after each refusal, up to 30 s. It returns false if the deadline would pass first, the process is
// stopping, or the chat is no longer ours.
func (j *job) waitForUpstream(f *errcode.Error, refusals int) bool {
	d := f.RetryAfter
	if d == 0 {
		d = hold.Jittered(min(time.Second<<min(refusals, 5), 30*time.Second), 0.2)
	}
	now, wrong := j.runner.Holder.Broker.Clock().Now()
	if deadline := j.chat().GetExecution().GetDeadline(); deadline != nil && wrong == nil && now.Add(d).After(deadline.AsTime()) {
		return false
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(j.runner.Holder.Fetching, cancel)()
	return broker.Wait(ctx, d) == nil
}

func (j *job) call(request body.Document, slot *pool.Slot) (reply, error) {
	ctx, span := j.held.Message.StartCall(j.ctx, "genbus.chat.call", j.chat().GetExecution())
	n := j.held.Name()
	r, err := j.callOnce(ctx, pool.ChatRequest{
		Job: pool.Job{ID: n.ID, Tenant: n.Tenant}, Model: j.held.Request.Item().GetModel(), Body: request, Queued: true, Slot: slot, Tried: &j.tried,
		AskForUsage: j.held.Request.Item().GetStream() && j.route.QueuedUsage,
	})
	hold.EndSpan(span, err)
	return r, err
}

func (j *job) callOnce(ctx context.Context, request pool.ChatRequest) (reply, error) {
	if j.held.Request.Item().GetStream() {
		return j.stream(ctx, request)
	}
	r, err := j.route.Caller.Complete(ctx, request)
	if err != nil {
		return reply{}, err
	}
	return reply{json: r.Raw, from: r.UpstreamKey}, nil
}

// stream publishes each block as it arrives and assembles the reply.
func (j *job) stream(ctx context.Context, request pool.ChatRequest) (reply, error) {
	s, err := j.route.Caller.Stream(ctx, request)
	if err != nil {
		return reply{}, err
	}
	defer s.Close()
	j.failing.Store(nil) // the upstream has answered
	h, n := j.runner.Holder, j.held.Name()
	chunks := publisher.NewChunks(j.ctx, h.Broker, j.runner.Encoder, h.Bodies, h.Metrics, n.Tenant, n.ID, j.chat().GetAttempt())
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
			if err != nil {
				return reply{chunks: count}, s.Unusable(err)
			}
			return reply{json: json, chunks: count, from: s.UpstreamKey()}, nil
		}
		chunks.Add(block)
		if err := whole.Add(block); err != nil {
			return reply{chunks: j.flush(chunks)}, s.Unusable(err)
		}
	}
}

// flush waits briefly until all chunks are confirmed and returns the number of blocks. If chunks
// are lost, readers see a gap, but the terminal event contains the whole reply.
func (j *job) flush(chunks *publisher.ChunkWriter) uint64 {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), flushTimeout)
	defer cancel()
	count, err := chunks.Flush(ctx)
	if err != nil {
		j.held.Logger().Warn("could not confirm chunks", telemetry.KeyError, err)
	}
	return count
}

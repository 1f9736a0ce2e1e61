package api

import (
	"context"
	"errors"
	"io"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// sink is the caller of a streamed chat. job is called once before the first
// block; queued tells that the job goes on without its caller. An error of block
// says that the caller is gone. The block is only lent.
type sink interface {
	job(id string, queued bool)
	// more says that the next block comes at once, so that this one need not be
	// sent by itself.
	block(data []byte, index uint64, more bool) error
}

// complete answers a chat whole: on the caller's connection, or, with a request
// id, as a queued job that is waited for.
func (c *core) complete(ctx context.Context, r admission.Request) (jobID string, raw []byte, err error) {
	if r.RequestID != "" {
		return c.completeQueued(ctx, r)
	}
	ctx, leave := c.drain.hold(ctx)
	defer leave()
	reply, err := c.inline.Complete(ctx, r)
	if err != nil {
		return "", nil, meaning(ctx, subject.TaskName{Kind: subject.Chat}, err)
	}
	return reply.JobID, reply.Raw, nil
}

// stream answers a chat block by block, the same two ways. nil means that the
// reply was whole.
func (c *core) stream(ctx context.Context, r admission.Request, to sink) error {
	if r.RequestID != "" {
		return c.streamQueued(ctx, r, to)
	}
	ctx, leave := c.drain.hold(ctx)
	defer leave()
	s, err := c.inline.Stream(ctx, r)
	if err != nil {
		return meaning(ctx, subject.TaskName{Kind: subject.Chat}, err)
	}
	defer s.Close()
	to.job(s.JobID(), false)
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return meaning(ctx, subject.TaskName{Kind: subject.Chat, ID: s.JobID()}, err)
		}
		if err := to.block(b.Data, b.Index, b.More); err != nil {
			return err
		}
	}
}

func (c *core) completeQueued(ctx context.Context, r admission.Request) (string, []byte, error) {
	e, err := c.submit(ctx, r)
	if err != nil {
		return "", nil, err
	}
	e, err = c.await(ctx, e)
	if err != nil {
		return e.Job.GetId(), nil, err
	}
	raw, err := c.reply(ctx, chat(e))
	return e.Job.GetId(), raw, err
}

// await waits until a job has ended. It is bounded by the job's own limits and
// by ctx.
func (c *core) await(ctx context.Context, e tasklog.Entry) (tasklog.Entry, error) {
	if e.Terminal() {
		return e, nil
	}
	ctx, leave := c.follow(ctx)
	defer leave()
	if err := c.recorded(ctx, e); err != nil {
		return e, err
	}
	for next, err := range c.log.Follow(ctx, e.Name(), e.Version()) {
		if err != nil {
			return e, following(meaning(ctx, e.Name(), err))
		}
		e = next
	}
	if !e.Terminal() {
		// The job ended between the caller's entry and the start of the follower.
		return c.get(ctx, e.Name())
	}
	return e, nil
}

// following says of an error that it ended the wait, not the job, unless the job
// was erased meanwhile.
func following(f *fault.Error) *fault.Error {
	if f.Code == fault.TaskNotFound || f.Code == fault.ChatNotFound {
		return f
	}
	out := *f
	out.Message = "job " + f.JobID + " was accepted and goes on, but can no longer be followed here; send the same request again (" + f.Message + ")"
	return &out
}

// recordTimeout bounds the wait for the first event of an accepted job.
const recordTimeout = 30 * time.Second

// recorded waits for the first event of a job whose work item is stored while
// the log did not answer; its handler writes the event.
func (c *core) recorded(ctx context.Context, e tasklog.Entry) error {
	if e.Seq != 0 {
		return nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, recordTimeout,
		fault.New(fault.BrokerUnavailable, "the log did not answer within %s", recordTimeout))
	defer stop()
	for {
		_, err := c.log.Get(ctx, e.Name())
		if err == nil {
			return nil
		}
		if broker.Wait(ctx, 200*time.Millisecond) != nil {
			return following(meaning(ctx, e.Name(), err))
		}
	}
}

// reply is the whole reply of a chat that has ended, or why there is none.
func (c *core) reply(ctx context.Context, job *genbusv1.Chat) ([]byte, error) {
	if err := ended(job); err != nil {
		return nil, err
	}
	return c.replyBytes(ctx, job)
}

// ended is nil for a chat that has completed, and else its error. The error is
// final: the same request id names the same failed job for good.
func ended(job *genbusv1.Chat) error {
	if job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return nil
	}
	if f := fault.FromTaskError(job.GetError()); f != nil {
		f.RetryAfter = 0
		return &finalError{f.ForJob(job.GetId())}
	}
	return fault.New(fault.Internal, "chat %s ended as %s without an error", job.GetId(), job.GetStatus()).ForJob(job.GetId())
}

// finalError marks the error of a job that has ended: no repeat changes it.
type finalError struct{ why *fault.Error }

func (e *finalError) Error() string { return e.why.Error() }
func (e *finalError) Unwrap() error { return e.why }

// replyBytes is the reply wherever it is stored; nil before the chat has
// completed.
func (c *core) replyBytes(ctx context.Context, job *genbusv1.Chat) ([]byte, error) {
	if job.GetReplyRef() == nil {
		return job.GetReplyJson(), nil
	}
	data, err := c.bodies.Get(ctx, publisher.BodyOf(job.GetReplyRef()))
	if err != nil {
		return nil, meaning(ctx, subject.TaskName{Kind: subject.Chat, Tenant: job.GetTenant(), ID: job.GetId()}, err)
	}
	return data, nil
}

package core

import (
	"context"
	"errors"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// Sink receives a streamed chat. Job is called once when the chat is accepted. The first block may
// follow minutes later.
type Sink interface {
	Job(id string)
	// Block receives the JSON of one block without framing. It must not keep data. index counts
	// from 0. If more is set, the next block follows at once, so this one may be held back until
	// then or until Flush. An error means that the caller has left.
	Block(data []byte, index uint64, more bool) error
	// Flush sends blocks that were held back. The next Block returns its error.
	Flush()
}

// Chats completes chats, whole or as a stream.
type Chats struct {
	inline  *inline.Runner
	jobs    *Jobs
	watcher *Watcher
	bodies  *broker.Bodies
	drain   *drain
}

// Complete answers a chat whole: on the caller's connection or, with a request id, as a queued job
// for which it waits.
func (c *Chats) Complete(ctx context.Context, r admission.Request) (jobID string, raw []byte, err error) {
	if r.RequestID != "" {
		return c.completeQueued(ctx, r)
	}
	ctx, release := c.drain.hold(ctx)
	defer release()
	reply, err := c.inline.Complete(ctx, r)
	if err != nil {
		return "", nil, Explain(ctx, subject.JobName{Kind: subject.Chat}, err)
	}
	return reply.JobID, reply.Raw, nil
}

// Stream answers a chat block by block, in the same two ways. It returns nil after a complete
// reply.
func (c *Chats) Stream(ctx context.Context, r admission.Request, to Sink) error {
	if r.RequestID != "" {
		return c.streamQueued(ctx, r, to)
	}
	ctx, release := c.drain.hold(ctx)
	defer release()
	s, err := c.inline.Stream(ctx, r, to.Job)
	if err != nil {
		return Explain(ctx, subject.JobName{Kind: subject.Chat}, err)
	}
	defer s.Close()
	s.OnWait(to.Flush)
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return Explain(ctx, subject.JobName{Kind: subject.Chat, ID: s.JobID()}, err)
		}
		if err := to.Block(b.Data, b.Index, b.More); err != nil {
			return err
		}
	}
}

func (c *Chats) completeQueued(ctx context.Context, r admission.Request) (string, []byte, error) {
	e, err := c.jobs.Submit(ctx, r)
	if err != nil {
		return "", nil, err
	}
	err = c.watcher.Count(subject.Chat, r.Ingress, func() (err error) {
		e, err = c.watcher.await(ctx, e)
		return err
	})
	if err != nil {
		return e.Job.GetId(), nil, err
	}
	raw, err := c.completed(ctx, ChatOf(e))
	return e.Job.GetId(), raw, err
}

// completed returns the whole reply of an ended chat, or its error.
func (c *Chats) completed(ctx context.Context, job *genbusv1.Chat) ([]byte, error) {
	if err := ended(job); err != nil {
		return nil, err
	}
	return c.Reply(ctx, job)
}

// ended returns the error of a chat that did not complete. It is final: the same request id always
// names this job.
func ended(job *genbusv1.Chat) error {
	if job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return nil
	}
	if f := errcode.FromTaskError(job.GetError()); f != nil {
		f.RetryAfter = 0
		return &FinalError{f.ForJob(job.GetId())}
	}
	return errcode.New(errcode.Internal, "chat %s ended as %s without an error", job.GetId(), job.GetStatus()).ForJob(job.GetId())
}

// Reply returns the reply wherever it is stored, or nil before the chat has completed.
func (c *Chats) Reply(ctx context.Context, job *genbusv1.Chat) ([]byte, error) {
	if job.GetReplyRef() == nil {
		return job.GetReplyJson(), nil
	}
	data, err := c.bodies.Get(ctx, publisher.BodyOf(job.GetReplyRef()))
	if err != nil {
		return nil, Explain(ctx, subject.JobName{Kind: subject.Chat, Tenant: job.GetTenant(), ID: job.GetId()}, err)
	}
	return data, nil
}

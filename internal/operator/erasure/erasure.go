// Package erasure removes the bodies, copies of results, chunks and events that genbus stores for
// an ended job. It does not affect the upstream's task or dead letters. Dead letters have their own
// bodies.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
)

const (
	timeout = 30 * time.Second
	// holderPatience bounds the wait for the holder of a job that another writer has ended. The
	// holder may be waiting for its upstream's answer.
	holderPatience = 10 * time.Second
	// queuedPatience bounds the wait for the holder of a job that was never submitted. Such a job
	// usually has no holder.
	queuedPatience = time.Second
)

// Eraser erases jobs. All fields are required.
type Eraser struct {
	Broker *broker.Broker
	Queue  *queue.Queue
	Log    *joblog.Log
	Index  *jobindex.Index
	Bodies *broker.Bodies
}

// Erase waits until no replica works on an ended job and then removes everything stored for it. It
// removes the events last so that a failed erasure can be repeated. Afterwards, the same request ID
// creates a new job. Erase returns joblog.ErrNotFound if the job no longer exists, and a
// *errcode.Error if its holder does not finish or the erasure times out.
func (x Eraser) Erase(ctx context.Context, e joblog.Entry) error {
	id := e.Job.GetId()
	ctx, stop := context.WithTimeoutCause(ctx, timeout,
		errcode.New(errcode.AcceptanceUnknown, "erase %s: no answer within %s; send the same request again", id, timeout))
	defer stop()
	err := x.erase(ctx, e)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("erase %s: %w", id, context.Cause(ctx)) // the interrupted operation's own error is less specific
	}
	return err
}

// erase lists the stored data before it reads the log. If the log then still has this job, the list
// cannot contain data of a later job with the same ID.
func (x Eraser) erase(ctx context.Context, e joblog.Entry) error {
	if err := x.awaitRemoved(ctx, e); err != nil {
		return err
	}
	bodies, err := x.Bodies.Of(ctx, e.Job.GetTenant(), e.Job.GetId())
	if err != nil {
		return err
	}
	chunks, err := x.chunks(ctx, e)
	if err != nil {
		return err
	}
	current, err := x.Log.Get(ctx, e.Name())
	if err != nil {
		return err
	}
	if !joblog.SameJob(e, current) {
		return joblog.ErrNotFound
	}
	if err := x.eraseBodies(ctx, bodies); err != nil {
		return err
	}
	if err := x.eraseChunks(ctx, e, chunks); err != nil {
		return err
	}
	x.Index.Erased(current) // before erasing the log, because a repeated erasure might not find the job
	if err := x.Log.Erase(ctx, current); err != nil {
		return err
	}
	x.Index.Erased(current) // again, because a message may be lost
	return nil
}

// awaitRemoved waits until no replica works on an ended job.
func (x Eraser) awaitRemoved(ctx context.Context, e joblog.Entry) error {
	if e.Job.GetExecution().GetFirstSubmitAt() == nil {
		return x.Queue.RemoveAfter(ctx, e, queuedPatience)
	}
	return x.Queue.Items.AwaitRemoved(ctx, e.Name(), holderPatience)
}

// eraseBodies removes a job's bodies from the object store. Some bodies may come from holders that
// died before they wrote an event.
func (x Eraser) eraseBodies(ctx context.Context, stored []broker.Body) error {
	var failed []error
	for _, ref := range stored {
		failed = append(failed, x.Bodies.Delete(ctx, ref))
	}
	return errors.Join(failed...)
}

// chunks returns the chunk stream with its current state, or nil if the job cannot have chunks.
func (x Eraser) chunks(ctx context.Context, e joblog.Entry) (jetstream.Stream, error) {
	if _, ok := e.Job.(*genbusv1.Chat); !ok {
		return nil, nil
	}
	stream, err := x.Broker.Stream(ctx, x.Broker.Names().Chunks())
	if errors.Is(err, jetstream.ErrStreamNotFound) { // the stream is in memory and does not survive a restart
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("erase the chunks of %s: %w", e.Job.GetId(), err)
	}
	return stream, nil
}

// eraseChunks removes the chunks of a chat that were stored before the state of stream was read. It
// does nothing if stream is nil.
func (x Eraser) eraseChunks(ctx context.Context, e joblog.Entry, stream jetstream.Stream) error {
	if stream == nil {
		return nil
	}
	err := stream.Purge(ctx, jetstream.WithPurgeSubject(x.Broker.Names().Chunk(e.Job.GetTenant(), e.Job.GetId())),
		jetstream.WithPurgeSequence(stream.CachedInfo().State.LastSeq+1))
	if err != nil {
		return fmt.Errorf("erase the chunks of %s: %w", e.Job.GetId(), err)
	}
	return nil
}

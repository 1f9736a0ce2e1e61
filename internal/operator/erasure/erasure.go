// Package erasure removes what genbus has stored of a job that has ended: bodies,
// copies of results, chunks and events. It ends no job, and reaches neither the
// upstream nor dead letters, which have a body of their own.
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
	// timeout bounds the whole of an erasure.
	timeout = 30 * time.Second
	// holderPatience is how long the holder of a job that another writer has ended
	// may still work on it: it may be waiting for its upstream's answer.
	holderPatience = 10 * time.Second
	// queuedPatience is the same for a job of which no submission began. It usually
	// has no holder to wait for.
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

// Erase waits until no replica works on a job that has ended, as e says, and then
// removes what is stored of it: the events last, so that an erasure that fails can
// be repeated. Afterwards the same request id makes a new job. A job that is gone
// already is joblog.ErrNotFound; where its holder does not let go, or the time is
// over, the error is a *errcode.Error.
func (x Eraser) Erase(ctx context.Context, e joblog.Entry) error {
	id := e.Job.GetId()
	ctx, stop := context.WithTimeoutCause(ctx, timeout,
		errcode.New(errcode.AcceptanceUnknown, "erase %s: no answer within %s; send the same request again", id, timeout))
	defer stop()
	err := x.erase(ctx, e)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("erase %s: %w", id, context.Cause(ctx)) // what it cut off says less
	}
	return err
}

// erase lists what is stored before it reads the log. Another erasure may have been faster,
// and a later job have the id: what was listed while the log had this one is not the later
// one's.
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
	x.Index.Erased(current) // first: a repeat of an erasure that failed finds no job any more
	if err := x.Log.Erase(ctx, current); err != nil {
		return err
	}
	x.Index.Erased(current) // and again, as a message may be lost
	return nil
}

// awaitRemoved returns when no replica works on a job that has ended.
func (x Eraser) awaitRemoved(ctx context.Context, e joblog.Entry) error {
	if e.Job.GetExecution().GetFirstSubmitAt() == nil {
		return x.Queue.RemoveAfter(ctx, e, queuedPatience)
	}
	return x.Queue.Items.AwaitRemoved(ctx, e.Name(), holderPatience)
}

// eraseBodies removes what the object store has, or may have, of a job: also what holders
// stored that did not live to write an event.
func (x Eraser) eraseBodies(ctx context.Context, stored []broker.Body) error {
	var failed []error
	for _, ref := range stored {
		failed = append(failed, x.Bodies.Delete(ctx, ref))
	}
	return errors.Join(failed...)
}

// chunks is the stream of chunks as it is now; nil where it has none of the job.
func (x Eraser) chunks(ctx context.Context, e joblog.Entry) (jetstream.Stream, error) {
	if _, ok := e.Job.(*genbusv1.Chat); !ok {
		return nil, nil
	}
	stream, err := x.Broker.Stream(ctx, x.Broker.Names().Chunks())
	if errors.Is(err, jetstream.ErrStreamNotFound) { // a memory stream, after a restart
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("erase the chunks of %s: %w", e.Job.GetId(), err)
	}
	return stream, nil
}

// eraseChunks removes what was streamed of a chat until the stream was read; of none where
// that is nil.
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

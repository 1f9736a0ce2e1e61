package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/telemetry"
)

// Limits of a ChunkWriter, in blocks and bytes.
const (
	maxBatchBlocks = 256
	maxBatchBytes  = 128 << 10
	// chunkBuffer bounds the unconfirmed bytes. It is the length of the longest complete reply.
	chunkBuffer = 32 << 20
	// inlineBuffer bounds the unconfirmed bytes of an inline chat.
	inlineBuffer = 1 << 20
)

// gatherTime is how long a block of an inline chat waits for other blocks to share its event. An
// event costs many times as much as a block. The delay affects only followers, because the caller
// already has the block.
const gatherTime = 50 * time.Millisecond

// Delays between attempts to publish a message.
const (
	resendWait    = 50 * time.Millisecond
	maxResendWait = time.Second
)

// ErrBlocksLost reports dropped blocks. Dropped blocks keep their indices, so that readers see the
// gap.
var ErrBlocksLost = errors.New("blocks were not published")

// ChunkWriter publishes the blocks of one attempt at one chat, in order. A block is sent at once if
// no message is in flight. Blocks that arrive before the broker has confirmed the message in flight
// share the next one. A writer therefore has at most one message in flight, which can be resent
// without overtaking a later one, and a slow broker receives fewer messages. Blocks of an inline
// chat are first gathered for 50 ms.
//
// A message is sent repeatedly until it is confirmed. Readers may see it twice and must drop
// repeats by (attempt, index). An idle writer has no goroutine. A ChunkWriter is safe for
// concurrent use; blocks are numbered in the order of Add.
type ChunkWriter struct {
	ctx       context.Context
	cancel    context.CancelFunc
	b         *broker.Broker
	enc       Encoder
	bodies    *broker.Bodies
	metrics   *telemetry.Metrics
	lost      func(blocks int) // counts dropped blocks
	limit     int
	budget    *Budget       // if nil, only limit applies
	gather    time.Duration // how long a block waits for other blocks
	sendEarly chan struct{} // ends that wait early

	tenant, id string
	attempt    uint32

	mu       sync.Mutex
	pending  blocks // added but not yet taken by the publisher
	held     int    // bytes in pending and taken by the publisher
	next     uint64 // index of the next block
	dropped  uint64
	running  bool          // whether the publisher's goroutine runs
	idle     chan struct{} // closed when it ends; nil if nothing waits for that
	capacity chan struct{} // closed when capacity may be available; nil if nothing waits for that
	flushes  int           // calls of Flush in progress
	closed   bool
	publish  sync.WaitGroup
}

// NewChunks returns a writer for an attempt at a queued chat. It publishes until Close is called or
// ctx ends. Either drops unconfirmed blocks. The writer holds at most 32 MiB of unconfirmed blocks.
func NewChunks(ctx context.Context, b *broker.Broker, enc Encoder, bodies *broker.Bodies, metrics *telemetry.Metrics, tenant, id string, attempt uint32) *ChunkWriter {
	ctx, cancel := context.WithCancel(ctx)
	return &ChunkWriter{
		ctx: ctx, cancel: cancel, b: b, enc: enc, bodies: bodies, metrics: metrics, lost: metrics.ChunksDropped,
		limit: chunkBuffer, tenant: tenant, id: id, attempt: attempt,
	}
}

// Inline turns the writer into one for an inline chat. Call it before the first Add. The writer
// then holds at most 1 MiB of unconfirmed blocks, within a budget shared by many writers. It counts
// dropped blocks as dropped events of inline chats.
func (w *ChunkWriter) Inline(budget *Budget) *ChunkWriter {
	w.limit, w.budget, w.lost = inlineBuffer, budget, w.metrics.InlineDropped
	w.gather, w.sendEarly = gatherTime, make(chan struct{}, 1)
	return w
}

// Add copies the next block and returns at once. It returns false if the block was dropped, because
// the buffer is full or the writer is closed. A dropped block still uses an index.
func (w *ChunkWriter) Add(block []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.add(block)
}

// AddWait is like Add but waits while the buffer is full, until ctx ends or the duration returned
// by limit has passed. It returns how long it waited.
func (w *ChunkWriter) AddWait(ctx context.Context, block []byte, limit func() time.Duration) (waited time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed && !w.accepts(len(block)) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(ctx, limit())
		w.awaitCapacity(ctx, len(block))
		cancel()
		waited = time.Since(begin)
	}
	w.add(block)
	return waited
}

// AcceptsNow reports whether AddWait would accept a block of n bytes without waiting.
func (w *ChunkWriter) AcceptsNow(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed || w.accepts(n)
}

// accepts reports whether add would accept a block of n bytes as the next one. That block must also
// directly follow the pending ones, because they share an event. The caller holds mu.
func (w *ChunkWriter) accepts(n int) bool { return w.fits(n) && w.pending.fits(w.next) }

// awaitCapacity waits until accepts(n) is true. The caller holds mu, which is released while
// waiting.
func (w *ChunkWriter) awaitCapacity(ctx context.Context, n int) {
	for !w.closed && !w.accepts(n) && ctx.Err() == nil {
		if w.capacity == nil {
			w.capacity = make(chan struct{})
		}
		capacity := w.capacity
		w.sendNow()
		w.mu.Unlock()
		select {
		case <-capacity:
		case <-ctx.Done():
		}
		w.mu.Lock()
	}
}

// add is like Add, but the caller holds mu.
func (w *ChunkWriter) add(block []byte) bool {
	index := w.next
	w.next++
	if w.closed || !w.pending.fits(index) || !w.reserve(len(block)) {
		w.dropped++
		w.lost(1)
		return false
	}
	w.pending.add(index, time.Now(), block)
	if !w.running {
		w.running = true
		w.publish.Go(w.run)
	} else if w.pending.count() == maxBatchBlocks || w.pending.size() >= maxBatchBytes {
		w.sendNow()
	}
	return true
}

// fits reports whether n more bytes fit. A single block always fits, because otherwise a block
// above the limit could never be published. The caller holds mu.
func (w *ChunkWriter) fits(n int) bool { return w.held == 0 || w.held+n <= w.limit }

func (w *ChunkWriter) reserve(n int) bool {
	if !w.fits(n) || !w.budget.Reserve(n) {
		return false
	}
	w.held += n
	return true
}

// sendNow ends the wait for more blocks.
func (w *ChunkWriter) sendNow() {
	select {
	case w.sendEarly <- struct{}{}:
	default: // a queued chat, or the wait has already ended
	}
}

// Flush waits until every block is confirmed or dropped. It returns the attempt's chunk count,
// which is the number of added and dropped blocks. The error is ErrBlocksLost if blocks were
// dropped, or the cause of ctx's end. count is valid even with an error.
func (w *ChunkWriter) Flush(ctx context.Context) (count uint64, err error) {
	w.flushing(1)
	defer w.flushing(-1)
	for {
		w.mu.Lock()
		count, dropped, running := w.next, w.dropped, w.running
		if running && w.idle == nil {
			w.idle = make(chan struct{})
		}
		idle := w.idle
		w.mu.Unlock()
		switch {
		case !running && dropped > 0:
			return count, fmt.Errorf("chat %s, attempt %d: %d of %d %w", w.id, w.attempt, dropped, count, ErrBlocksLost)
		case !running:
			return count, nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return count, fmt.Errorf("chat %s, attempt %d: publish %d blocks: %w", w.id, w.attempt, count, context.Cause(ctx))
		}
	}
}

// flushing adds n to the number of Flush calls in progress. Blocks are not gathered during such a
// call.
func (w *ChunkWriter) flushing(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes += n
	w.sendNow()
}

// Close drops unconfirmed blocks and waits for the publisher to end. It may be called twice.
func (w *ChunkWriter) Close() {
	w.mu.Lock()
	w.closed = true
	w.signalCapacity()
	w.mu.Unlock()
	w.cancel()
	w.publish.Wait()
}

// run publishes until no block is pending.
func (w *ChunkWriter) run() {
	for {
		w.gatherBlocks()
		work, ok := w.take()
		if !ok {
			return
		}
		for rest := work; rest.count() > 0; {
			batch := rest.cut(maxBatchBlocks, maxBatchBytes)
			w.finish(batch, w.send(batch))
		}
		work.release()
	}
}

// gatherBlocks waits for blocks that can share the next event.
func (w *ChunkWriter) gatherBlocks() {
	w.mu.Lock()
	count, size := w.pending.count(), w.pending.size()
	skip := w.gather == 0 || w.flushes > 0 || count == 0 || count >= maxBatchBlocks || size >= maxBatchBytes
	w.mu.Unlock()
	if skip {
		return
	}
	timer := time.NewTimer(w.gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.sendEarly:
	case <-w.ctx.Done():
	}
}

// take returns the pending blocks. If there are none, ok is false and the publisher no longer
// counts as running.
func (w *ChunkWriter) take() (work blocks, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending.count() > 0 {
		work, w.pending = w.pending, blocks{}
		w.signalCapacity()
		return work, true
	}
	w.running = false
	if w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
	return blocks{}, false
}

func (w *ChunkWriter) finish(batch blocks, stored bool) {
	w.budget.Release(batch.size())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= batch.size()
	w.signalCapacity()
	if stored {
		return
	}
	w.dropped += uint64(batch.count())
	w.lost(batch.count())
}

// signalCapacity wakes the calls that wait for capacity. The caller holds mu.
func (w *ChunkWriter) signalCapacity() {
	if w.capacity != nil {
		close(w.capacity)
		w.capacity = nil
	}
}

// send publishes a batch repeatedly until it is confirmed. It returns false if the writer has ended
// or the broker will never accept the message.
func (w *ChunkWriter) send(batch blocks) (stored bool) {
	var m *nats.Msg
	begin := time.Now()
	for wait := resendWait; w.ctx.Err() == nil; wait = min(2*wait, maxResendWait) {
		var err error
		if m == nil {
			m, err = w.message(batch)
		}
		if err == nil {
			_, err = w.b.Publish(w.ctx, m)
		}
		switch {
		case err == nil:
			w.metrics.ChunksPublished(1)
			w.metrics.EventPublished(telemetry.PublishedChunk, time.Since(begin))
			return true
		case broker.Permanent(err):
			return false
		}
		if broker.Wait(w.ctx, wait) != nil {
			return false
		}
	}
	return false
}

// message builds the event of a batch. A large block, which is alone in its batch, goes to the
// object store first.
func (w *ChunkWriter) message(batch blocks) (*nats.Msg, error) {
	chunk := &genbusv1.ChatChunk{Id: w.id, Attempt: w.attempt, Index: batch.first, Time: timestamppb.New(batch.at[0])}
	if batch.size() <= ClaimCheckOf(w.b) {
		chunk.Blocks = batch.slices()
		return w.enc.Chunk(w.ctx, w.tenant, chunk)
	}
	ref, err := w.bodies.Put(w.ctx, w.tenant, blockBody(w.id, w.attempt, batch.first), batch.bytes())
	if err != nil {
		return nil, fmt.Errorf("block %d of chat %s: %w", batch.first, w.id, err)
	}
	chunk.BlocksRef = BlobRef(ref)
	return w.enc.Chunk(w.ctx, w.tenant, chunk)
}

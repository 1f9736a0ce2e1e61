package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Lane classifies writes for fair sharing of the window.
type Lane int

const (
	// Jobs is the default lane, which takes precedence.
	Jobs Lane = iota
	// Inline holds the events of inline chats. They use at most half of the window, and one of them
	// may always be in flight, however many jobs wait.
	Inline
	laneCount // number of lanes
)

// errNotSent means that a write never left this process.
var errNotSent = errors.New("the message was not sent")

// Ack is the server's confirmation of a write.
type Ack struct {
	Seq uint64
	// Duplicate reports that the server dropped the message because it knew its Nats-Msg-Id. The
	// stored message may be a different one.
	Duplicate bool
}

type streamOptions struct {
	// Window limits the writes in flight. Default: 512.
	Window int
	// ShareFrom is the number of waiting writes from which they are sent as one atomic batch; 0
	// disables batches. Set it for a server that syncs message by message. The stream must allow
	// atomic batches.
	ShareFrom int
	// Timeout bounds the wait for the answer to a batch. Timeout, Room and Sound are required if
	// ShareFrom is set.
	Timeout time.Duration
	// Room reports whether the server has capacity for many batches. If the store fills up within a
	// batch, the server may store part of it without an answer or a sync. All writes wait for Room,
	// so it must not wait for a sync.
	Room func() bool
	// Sound reports whether the server has met no error while writing or syncing the stream. It may
	// wait for a sync. One short-lived goroutine at a time calls it.
	Sound func() bool
}

// streamWriter pipelines the writes to one stream over one connection. If the server syncs message
// by message, waiting writes share a sync. It never retries a write that may be stored. It is safe
// for concurrent use.
type streamWriter struct {
	replies *replies
	o       streamOptions

	mu       sync.Mutex
	lanes    [laneCount]laneQueues
	inFlight [laneCount]int
	sends    uint64 // sent writes and batches; the server answers in this order
	singles  int    // writes unfit for a batch that were sent since the last batch
	batches  batches
}

// laneQueues holds the waiting writes of one lane. Those in alone are unfit for a batch.
type laneQueues struct{ shared, alone writeQueue }

func (l *laneQueues) pop() *write {
	if op := l.alone.pop(); op != nil {
		return op
	}
	return l.shared.pop()
}

func newStreamWriter(replies *replies, o streamOptions) *streamWriter {
	if o.Window == 0 {
		o.Window = 512
	}
	return &streamWriter{replies: replies, o: o, batches: newBatches()}
}

type write struct {
	m      *nats.Msg
	lane   Lane
	result chan writeResult // buffered

	// The fields below are guarded by streamWriter.mu.
	state     writeState
	waits     *writeQueue // queue that holds or held it; nil for half of a refused batch
	id        uint64      // of its answer, if it was sent alone
	sent      uint64      // its position in streamWriter.sends
	abandoned bool        // the caller gave up, but a batch contains it
}

type writeState int

const (
	writeQueued writeState = iota
	writeInFlight
	writeDone
)

type writeResult struct {
	ack Ack
	err error
}

// write stores m and waits for the ack; it does not change m. It fails with a *jetstream.APIError
// if the server refused, with nats.ErrNoResponders if no stream responded, and with errNotSent if m
// was never sent. After any other error, m may be stored.
func (w *streamWriter) write(ctx context.Context, m *nats.Msg, lane Lane) (Ack, error) {
	op := &write{m: m, lane: lane, result: make(chan writeResult, 1)}
	w.mu.Lock()
	if w.o.ShareFrom > 0 && op.size() > largestShared {
		w.lanes[lane].alone.push(op)
	} else {
		w.lanes[lane].shared.push(op)
	}
	w.send()
	w.mu.Unlock()
	select {
	case r := <-op.result:
		return r.ack, r.err
	case <-ctx.Done():
		return w.abandon(ctx, op)
	}
}

// abandon cancels a write whose caller gave up. A write in a batch stays there.
func (w *streamWriter) abandon(ctx context.Context, op *write) (Ack, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case op.state == writeDone:
		r := <-op.result
		return r.ack, r.err
	case op.state == writeQueued:
		op.state = writeDone
		if op.waits != nil {
			op.waits.live--
		}
		// Formatted rather than wrapped, because the cause may be the error of a missing answer.
		return Ack{}, fmt.Errorf("%w: %s", errNotSent, context.Cause(ctx).Error())
	case op.id != 0 && w.replies.forget(op.id):
		w.complete(op, writeResult{})
		w.send()
	default:
		op.abandoned = true
	}
	return Ack{}, context.Cause(ctx)
}

// most returns how many writes may be in flight outside batches. If each of them is synced, a few
// keep the disk busy, and the rest wait for a batch.
func (w *streamWriter) most() int {
	if w.o.ShareFrom > 0 {
		return min(w.o.Window, mostSynced)
	}
	return w.o.Window
}

// mostSynced keeps the server busy during the round trips.
const mostSynced = 8

// send sends all writes that may go out now. The caller holds w.mu.
func (w *streamWriter) send() {
	for {
		for writes := w.nextBatch(); len(writes) > 0; writes = w.nextBatch() {
			w.sendBatch(writes)
		}
		op := w.next()
		if op == nil {
			return
		}
		w.sendAlone(op)
	}
}

// sendAlone sends one write outside a batch. The caller holds w.mu.
func (w *streamWriter) sendAlone(op *write) {
	w.begin(op)
	id, err := w.replies.publish(op.m, func(m *nats.Msg, err error) { w.answered(op, m, err) })
	if err != nil {
		w.complete(op, writeResult{err: notSent(err)})
		return
	}
	op.id = id
}

// begin counts a write as in flight. The caller holds w.mu.
func (w *streamWriter) begin(op *write) {
	w.sends++
	op.state, op.sent = writeInFlight, w.sends
	w.inFlight[op.lane]++
}

// next removes and returns the next write to send alone, or nil. While a batch is in flight, new
// writes wait for the next batch, because the server would answer them only after it.
func (w *streamWriter) next() *write {
	if w.batches.open() || w.inFlight[Jobs]+w.inFlight[Inline] >= w.most() {
		return nil
	}
	if w.inFlight[Inline] == 0 {
		if op := w.lanes[Inline].pop(); op != nil {
			return w.single(op)
		}
	}
	if op := w.lanes[Jobs].pop(); op != nil {
		return w.single(op)
	}
	if w.inFlight[Inline] >= max(w.most()/2, 1) {
		return nil
	}
	return w.single(w.lanes[Inline].pop())
}

// single counts op in singles if it is unfit for a batch.
func (w *streamWriter) single(op *write) *write {
	if op != nil && op.waits == &w.lanes[op.lane].alone {
		w.singles++
	}
	return op
}

func (w *streamWriter) answered(op *write, m *nats.Msg, err error) {
	r := writeResult{err: err}
	if err == nil {
		r.ack, _, r.err = decodeAck(m)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, refused := errors.AsType[*jetstream.APIError](r.err); r.err == nil || refused {
		w.processed(op.sent)
	}
	w.complete(op, r)
	w.send()
}

// complete ends a write in flight. The caller holds w.mu.
func (w *streamWriter) complete(op *write, r writeResult) {
	w.inFlight[op.lane]--
	op.state = writeDone
	op.result <- r
}

func notSent(err error) error { return errors.Join(errNotSent, err) }

type pubAck struct {
	Error     *jetstream.APIError `json:"error"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"` // messages in the batch
}

// decodeAck parses an answer. count is the number of messages of a batch.
func decodeAck(m *nats.Msg) (ack Ack, count int, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return Ack{}, 0, nats.ErrNoResponders
	}
	var a pubAck
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return Ack{}, 0, fmt.Errorf("the answer to a write is unreadable: %w", err)
	}
	if a.Error != nil {
		return Ack{}, 0, a.Error
	}
	if a.Sequence == 0 {
		return Ack{}, 0, errors.New("the answer to a write has no sequence")
	}
	return Ack{Seq: a.Sequence, Duplicate: a.Duplicate}, a.Count, nil
}

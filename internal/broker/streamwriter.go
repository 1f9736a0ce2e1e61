package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Lane divides writes into classes that share the window fairly.
type Lane int

const (
	// Jobs is the default lane. It takes precedence.
	Jobs Lane = iota
	// Inline is the lane for the events of inline chats. They use at most half of the window, but
	// one of them may always be in flight, no matter how many writes of the Jobs lane wait.
	Inline
	laneCount // number of lanes
)

// errNotSent means that a write never left this process.
var errNotSent = errors.New("the message was not sent")

// Ack is the server's confirmation of a write.
type Ack struct {
	Seq uint64
	// Duplicate reports whether the server dropped the message because it already knew its
	// Nats-Msg-Id. The stored message may have different contents.
	Duplicate bool
}

type streamOptions struct {
	// Window limits the writes in flight. Default: 512.
	Window int
	// ShareFrom is the minimum number of waiting writes to send as one atomic batch. 0 disables
	// batches. Set it for a server that syncs every message. The stream must allow atomic batches.
	ShareFrom int
	// Timeout bounds the wait for the answer to a batch. Timeout, HasCapacity and Sound are
	// required if ShareFrom is set.
	Timeout time.Duration
	// HasCapacity reports whether the server has capacity for many batches. If the store fills up
	// during a batch, the server may store part of it without syncing it or sending an answer. All
	// writes are blocked while HasCapacity runs, so it must not wait for a sync.
	HasCapacity func() bool
	// Sound reports whether the server has written and synced the stream without errors so far. It
	// may wait for a sync. Calls never overlap.
	Sound func() bool
}

// streamWriter pipelines the writes to one stream over one connection. If the server syncs every
// message, waiting writes are batched to share a sync. streamWriter never retries a write that may
// be stored. It is safe for concurrent use.
type streamWriter struct {
	replies *replies
	o       streamOptions

	mu       sync.Mutex
	lanes    [laneCount]laneQueues
	inFlight [laneCount]int
	sends    uint64 // number of writes sent, including those in batches; the server answers in this order
	singles  int    // number of writes sent from alone queues since the last batch
	batches  batches
}

// laneQueues holds the waiting writes of one lane. Writes in alone cannot be part of a batch.
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
	waits     *writeQueue // queue that holds or held this write; nil if it is in half of a refused batch
	id        uint64      // ID of the answer if the write was sent alone
	sent      uint64      // value of streamWriter.sends for this write
	abandoned bool        // the caller gave up while the write was in a batch
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

// write stores m, without changing it, and waits for the ack until ctx ends or timeout fires. It
// returns a *jetstream.APIError if the server answered with an error,
// nats.ErrNoResponders if no stream responded, and errNotSent if m was never sent. After any other
// error, m may be stored.
func (w *streamWriter) write(ctx context.Context, m *nats.Msg, lane Lane, timeout <-chan time.Time) (Ack, error) {
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
		return w.abandon(op, context.Cause(ctx))
	case <-timeout:
		return w.abandon(op, errPublishTimeout)
	}
}

// abandon cancels a write whose caller has given up. A write that is part of a batch stays in it.
func (w *streamWriter) abandon(op *write, cause error) (Ack, error) {
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
		// Formatted rather than wrapped, because the cause may be an ErrNoAnswer.
		return Ack{}, fmt.Errorf("%w: %s", errNotSent, cause.Error())
	case op.id != 0 && w.replies.remove(op.id):
		w.complete(op, writeResult{})
		w.send()
	default:
		op.abandoned = true
	}
	return Ack{}, cause
}

// maxInFlight returns how many writes may be in flight outside batches. If the server syncs every
// write, a few keep the disk busy, and the rest wait for a batch.
func (w *streamWriter) maxInFlight() int {
	if w.o.ShareFrom > 0 {
		return min(w.o.Window, maxSynced)
	}
	return w.o.Window
}

// maxSynced writes are enough to keep the server busy during round trips.
const maxSynced = 8

// send sends all writes that may be sent now. The caller holds w.mu.
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

// begin marks a write as in flight. The caller holds w.mu.
func (w *streamWriter) begin(op *write) {
	w.sends++
	op.state, op.sent = writeInFlight, w.sends
	w.inFlight[op.lane]++
}

// next removes and returns the next write to send alone, or nil. It returns nil while a batch is in
// flight, because the server would answer the write only after the batch.
func (w *streamWriter) next() *write {
	if w.batches.open() || w.inFlight[Jobs]+w.inFlight[Inline] >= w.maxInFlight() {
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
	if w.inFlight[Inline] >= max(w.maxInFlight()/2, 1) {
		return nil
	}
	return w.single(w.lanes[Inline].pop())
}

// single returns op, and increments singles if op comes from an alone queue.
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

// complete delivers the result of a write in flight. The caller holds w.mu.
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
	Count     int                 `json:"count"` // number of messages in the batch
}

// decodeAck parses an answer. count is the number of messages in a batch.
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

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

// Lane is what a write is for.
type Lane int

const (
	// Jobs are the writes of accepted jobs, which go first.
	Jobs Lane = iota
	// Inline are the events of inline chats: they have at most half of the window, and one of
	// them is under way however many jobs wait.
	Inline
	laneCount // how many there are
)

// errNotSent says that a write did not leave this process.
var errNotSent = errors.New("the message was not sent")

// Ack is the server's confirmation.
type Ack struct {
	Seq uint64
	// Duplicate is true when the server dropped the message because it knew its
	// Nats-Msg-Id. It is no proof that the stored message is ours.
	Duplicate bool
}

// streamOptions are those of a streamWriter.
type streamOptions struct {
	// Window bounds the writes in flight. Default: 512.
	Window int
	// ShareFrom is how many writes have to wait until they go together, as one atomic batch;
	// 0: never. It is for a server that syncs each message on its own. The stream has to allow
	// atomic batches.
	ShareFrom int
	// Timeout bounds the wait for the answer to a batch. Required where ShareFrom is set, as are
	// Room and Sound.
	Timeout time.Duration
	// Room reports whether the server has room for many batches: one that it has none for may be
	// stored in part, without an answer and without a sync. All writes wait for it: it does not
	// wait for a sync itself.
	Room func() bool
	// Sound reports whether the server has met no error when it wrote to the stream or synced it.
	// It may wait for a sync, and is called by one goroutine at a time, which ends with it.
	Sound func() bool
}

// streamWriter writes to one stream: many writes are in flight over one connection, and where the
// server syncs each of them to disk on its own, those that wait share a sync. It decides nothing of
// what is written, and repeats nothing whose fate is unknown. It is safe for concurrent use.
type streamWriter struct {
	replies *replies
	o       streamOptions

	mu       sync.Mutex
	lanes    [laneCount]laneQueues
	inFlight [laneCount]int
	sends    uint64 // writes and batches that were sent, which is the order of the server's answers
	singles  int    // writes that no batch may have that were sent since the last batch
	batches  batches
}

// laneQueues are the writes of one lane that wait: those that a batch may have, and the others.
type laneQueues struct{ shared, alone writeQueue }

func (l *laneQueues) pop() *write {
	if op := l.alone.pop(); op != nil {
		return op
	}
	return l.shared.pop()
}

// newStreamWriter returns a writer whose answers come by replies.
func newStreamWriter(replies *replies, o streamOptions) *streamWriter {
	if o.Window == 0 {
		o.Window = 512
	}
	return &streamWriter{replies: replies, o: o, batches: newBatches()}
}

// write is one message on its way.
type write struct {
	m      *nats.Msg
	lane   Lane
	result chan writeResult // takes one

	// What follows has the writer's lock.
	state     writeState
	waits     *writeQueue // where it waits, or has waited; nil: in half of a batch
	id        uint64      // of its answer, when it was sent alone
	sent      uint64      // its place in streamWriter.sends
	abandoned bool        // its caller has gone away, and it was part of a batch
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

// write stores m, which it does not change, and waits for the answer. The error is that of
// the server, a *jetstream.APIError; nats.ErrNoResponders where no stream listened; errNotSent;
// or any other where the message is stored or not.
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

// abandon gives up a write whose caller has gone away. One that is part of a batch stays
// there.
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
		// Without the cause's identity, which may say that an answer did not come.
		return Ack{}, fmt.Errorf("%w: %s", errNotSent, context.Cause(ctx).Error())
	case op.id != 0 && w.replies.forget(op.id):
		w.complete(op, writeResult{})
		w.send()
	default:
		op.abandoned = true
	}
	return Ack{}, context.Cause(ctx)
}

// most is how many writes may be in flight one by one. Where each of them is synced, few
// keep the disk busy, and the others wait for one to share.
func (w *streamWriter) most() int {
	if w.o.ShareFrom > 0 {
		return min(w.o.Window, mostSynced)
	}
	return w.o.Window
}

// mostSynced keeps the server busy while answers are on their way.
const mostSynced = 8

// send sends what may go out. It needs the lock.
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

// sendAlone needs the lock.
func (w *streamWriter) sendAlone(op *write) {
	w.begin(op)
	id, err := w.replies.publish(op.m, func(m *nats.Msg, err error) { w.answered(op, m, err) })
	if err != nil {
		w.complete(op, writeResult{err: notSent(err)})
		return
	}
	op.id = id
}

// begin counts a write as in flight. It needs the lock.
func (w *streamWriter) begin(op *write) {
	w.sends++
	op.state, op.sent = writeInFlight, w.sends
	w.inFlight[op.lane]++
}

// next takes the write that goes out next; nil where none may. While a batch is under way
// what comes waits for the next one: the server would answer it behind the batch.
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

// single counts a write that no batch may have.
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

// complete ends a write that was in flight. It needs the lock.
func (w *streamWriter) complete(op *write, r writeResult) {
	w.inFlight[op.lane]--
	op.state = writeDone
	op.result <- r
}

func notSent(err error) error { return errors.Join(errNotSent, err) }

// pubAck is the answer to a write.
type pubAck struct {
	Error     *jetstream.APIError `json:"error"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"` // of a batch
}

// decodeAck reads an answer, and how many messages of a batch it is for.
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

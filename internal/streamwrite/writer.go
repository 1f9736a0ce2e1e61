// Package streamwrite writes messages to one JetStream stream: many of them are in flight
// over one connection, and where the server syncs each of them to disk on its own, those that
// wait share a sync. It decides nothing of what is written, and repeats nothing whose fate is
// unknown.
package streamwrite

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

// Lane is what a write is for. Those of a lane go out in their order.
type Lane int

const (
	// Jobs are the writes of accepted jobs, which go first.
	Jobs Lane = iota
	// Inline are the events of inline chats: they have at most half of the window.
	Inline
	lanes // how many there are
)

// ErrNotSent says that a write did not leave this process.
var ErrNotSent = errors.New("the message was not sent")

// Ack is the server's confirmation.
type Ack struct {
	Seq uint64
	// Duplicate is true when the server dropped the message because it knew its
	// Nats-Msg-Id. It is no proof that the stored message is ours.
	Duplicate bool
}

// Options are those of a Writer.
type Options struct {
	// Window bounds the writes in flight. Default: 512.
	Window int
	// ShareFrom is how many writes have to wait until they go together, as one atomic batch;
	// 0: never. It is for a server that syncs each message on its own. The stream has to allow
	// atomic batches.
	ShareFrom int
	// Timeout bounds the wait for the answer to a batch. Required where ShareFrom is set.
	Timeout time.Duration
}

// Writer writes to one stream. It is safe for concurrent use.
type Writer struct {
	replies *Replies
	o       Options

	mu       sync.Mutex
	queues   [lanes]queue
	alone    queue // writes that no batch may have, which go first
	inFlight [lanes]int
	batches  batches
}

// New returns a writer whose answers come by replies.
func New(replies *Replies, o Options) *Writer {
	if o.Window == 0 {
		o.Window = 512
	}
	return &Writer{replies: replies, o: o, batches: newBatches()}
}

// write is one message on its way.
type write struct {
	m      *nats.Msg
	lane   Lane
	result chan result // takes one

	// What follows has the writer's lock.
	state     state
	id        uint64 // of its answer, when it was sent alone
	abandoned bool   // its caller has gone away
}

type state int

const (
	queued state = iota
	inFlight
	done
)

type result struct {
	ack Ack
	err error
}

// Write stores m, which it does not change, and waits for the answer. The error is that of
// the server, a *jetstream.APIError; nats.ErrNoResponders where no stream listened; ErrNotSent;
// or any other where the message is stored or not.
func (w *Writer) Write(ctx context.Context, m *nats.Msg, lane Lane) (Ack, error) {
	op := &write{m: m, lane: lane, result: make(chan result, 1)}
	w.mu.Lock()
	if op.size() > largestShared {
		w.alone.push(op)
	} else {
		w.queues[lane].push(op)
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
func (w *Writer) abandon(ctx context.Context, op *write) (Ack, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	op.abandoned = true
	switch {
	case op.state == done:
		r := <-op.result
		return r.ack, r.err
	case op.state == queued:
		op.state = done // send passes over it
		return Ack{}, errors.Join(ErrNotSent, context.Cause(ctx))
	case op.id != 0 && w.replies.forget(op.id):
		w.settle(op, result{})
		w.send()
	}
	return Ack{}, context.Cause(ctx)
}

// most is how many writes may be in flight one by one. Where each of them is synced, few
// keep the disk busy, and the others wait for one to share.
func (w *Writer) most() int {
	if w.o.ShareFrom > 0 {
		return min(w.o.Window, mostSynced)
	}
	return w.o.Window
}

// mostSynced keeps the server busy while answers are on their way.
const mostSynced = 8

// send sends what may go out. It needs the lock.
func (w *Writer) send() {
	for {
		if w.shares() {
			w.sendBatch()
		}
		op := w.next()
		if op == nil {
			return
		}
		op.state = inFlight
		w.inFlight[op.lane]++
		id, err := w.replies.publish(op.m, func(m *nats.Msg, err error) { w.answered(op, m, err) })
		if err != nil {
			w.settle(op, result{err: notSent(err)})
			continue
		}
		op.id = id
	}
}

// next takes the write that goes out next; nil where none may. While a batch is under way
// what comes waits for the next one.
func (w *Writer) next() *write {
	if w.batches.open() {
		return nil
	}
	if w.inFlight[Jobs]+w.inFlight[Inline] >= w.most() {
		return nil
	}
	if op := w.alone.pop(); op != nil {
		return op
	}
	if op := w.queues[Jobs].pop(); op != nil {
		return op
	}
	if w.inFlight[Inline] >= max(w.most()/2, 1) {
		return nil
	}
	return w.queues[Inline].pop()
}

func (w *Writer) answered(op *write, m *nats.Msg, err error) {
	r := result{err: err}
	if err == nil {
		r.ack, _, r.err = decode(m)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(op, r)
	w.send()
}

// settle ends a write that was in flight. It needs the lock.
func (w *Writer) settle(op *write, r result) {
	w.inFlight[op.lane]--
	op.state = done
	op.result <- r
}

func notSent(err error) error { return errors.Join(ErrNotSent, err) }

// pubAck is the answer to a write.
type pubAck struct {
	Error     *jetstream.APIError `json:"error"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"` // of a batch
}

// decode reads an answer, and how many messages of a batch it is for.
func decode(m *nats.Msg) (ack Ack, count int, err error) {
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

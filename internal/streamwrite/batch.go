package streamwrite

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Headers of an atomic batch (ADR 50 of NATS).
const (
	headerBatch    = "Nats-Batch-Id"
	headerSequence = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// Bounds of a batch. The server takes up to 1,000 messages in one.
const (
	mostShared      = 500
	mostSharedBytes = 2 << 20
	// largestShared is the length of a message from which on it goes alone.
	largestShared = 128 << 10
)

// batches are the atomic batches of a writer, of which one is under way at a time.
type batches struct {
	prefix string
	last   uint64

	mu   sync.Mutex
	sent map[string]*batch // by id; those whose answer has not come
}

// batch is one of them. stored is set before done is closed.
type batch struct {
	id     string
	writes []*write
	done   chan struct{}
	stored bool
	timer  *time.Timer
}

func newBatches() batches {
	return batches{prefix: nuid.Next(), sent: map[string]*batch{}}
}

func (b *batches) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sent) > 0
}

func (b *batches) begin(writes []*write) *batch {
	b.last++
	one := &batch{id: b.prefix + strconv.FormatUint(b.last, 36), writes: writes, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[one.id] = one
	return one
}

func (b *batches) end(one *batch, stored bool) {
	one.timer.Stop()
	one.stored = stored
	b.mu.Lock()
	delete(b.sent, one.id)
	b.mu.Unlock()
	close(one.done)
}

// Settled waits until it is known what became of the batch that a message is part of, and
// reports whether that is stored: the server may give the messages of a batch to consumers, and
// republish them, where it has not synced the batch. A message of no batch that is under way
// is stored.
func (w *Writer) Settled(h nats.Header) bool {
	id := h[headerBatch]
	if len(id) == 0 {
		return true
	}
	w.batches.mu.Lock()
	one := w.batches.sent[id[0]]
	w.batches.mu.Unlock()
	if one == nil {
		return true
	}
	<-one.done // within Options.Timeout
	return one.stored
}

// shares reports whether what waits is to go as one batch. It needs the lock.
func (w *Writer) shares() bool {
	return w.o.ShareFrom > 0 && !w.batches.open() && w.queues[Jobs].size()+w.queues[Inline].size() >= w.o.ShareFrom
}

// sendBatch sends what waits, as far as one batch may have it: of each subject one message,
// as the server refuses a batch that writes to a subject and then expects a sequence of it.
// It needs the lock.
func (w *Writer) sendBatch() {
	bytes, subjects := 0, map[string]bool{}
	upTo := func(most int) func(*write) bool {
		return func(op *write) bool {
			size := op.size()
			if most == 0 || subjects[op.m.Subject] || bytes+size > mostSharedBytes {
				return false
			}
			most--
			bytes, subjects[op.m.Subject] = bytes+size, true
			return true
		}
	}
	inline := min(w.queues[Inline].size(), mostShared/2)
	writes := w.queues[Jobs].take(upTo(mostShared - inline))
	writes = append(writes, w.queues[Inline].take(upTo(inline))...)
	for _, op := range writes {
		op.state = inFlight
		w.inFlight[op.lane]++
	}
	one := w.batches.begin(writes)
	one.timer = time.AfterFunc(w.o.Timeout, func() { w.committed(one, nil, nats.ErrTimeout) })
	if err := w.publishBatch(one); err != nil {
		w.finish(one, nil, notSent(err))
	}
}

// publishBatch sends the messages of a batch. The last one has it committed, and has the
// answer for all: what was wrong with an earlier one makes that incomplete.
func (w *Writer) publishBatch(one *batch) error {
	for i, op := range one.writes {
		m := &nats.Msg{Subject: op.m.Subject, Data: op.m.Data, Header: maps.Clone(op.m.Header)}
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header[headerBatch] = []string{one.id}
		m.Header[headerSequence] = []string{strconv.Itoa(i + 1)}
		if i < len(one.writes)-1 {
			if err := w.replies.nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header[headerCommit] = []string{"1"}
		_, err := w.replies.publish(m, func(m *nats.Msg, err error) { w.committed(one, m, err) })
		return err
	}
	return nil
}

// committed takes the answer to a batch, or its end without one.
func (w *Writer) committed(one *batch, m *nats.Msg, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(one, m, err)
	w.send()
}

// finish ends a batch. One that is refused stores nothing, and its messages go alone: the
// server says of each of them what is wrong with it. It needs the lock.
func (w *Writer) finish(one *batch, m *nats.Msg, err error) {
	select {
	case <-one.done:
		return // the answer came when the time was over, or the other way round
	default:
	}
	var ack Ack
	if err == nil {
		var count int
		if ack, count, err = decode(m); err == nil && count != len(one.writes) {
			err = errors.New("the answer to a batch is of another number of messages")
		}
	}
	w.batches.end(one, err == nil)
	if refused(err) {
		for _, op := range one.writes {
			if op.abandoned {
				w.settle(op, result{err: err})
				continue
			}
			w.inFlight[op.lane]--
			op.state = queued
			w.alone.push(op)
		}
		return
	}
	first := ack.Seq - uint64(len(one.writes)) + 1 // they are stored one after the other
	for i, op := range one.writes {
		r := result{err: err}
		if err == nil {
			r.ack = Ack{Seq: first + uint64(i)}
		}
		w.settle(op, r)
	}
}

// codeStoreFailed is a stream or a subject that is full: a batch was not stored then either.
const codeStoreFailed jetstream.ErrorCode = 10077

// refused reports whether the server has certainly stored nothing of a batch.
func refused(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.Code < 500 || api.ErrorCode == codeStoreFailed)
}

// size is what the message takes, about, in bytes.
func (op *write) size() int {
	n := len(op.m.Data)
	for key, values := range op.m.Header {
		for _, v := range values {
			n += len(key) + len(v)
		}
	}
	return n
}

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
	halves [][]*write // of batches that were refused

	mu   sync.Mutex
	sent map[string]*batch // by id; those whose answer has not come
	// undecided are the batches whose answer did not come in time, with their places in
	// Writer.sends.
	undecided map[string]uint64
}

// batch is one of them. stored is set before done is closed.
type batch struct {
	id     string
	sent   uint64 // its place in Writer.sends
	writes []*write
	done   chan struct{}
	stored bool
	timer  *time.Timer
}

func newBatches() batches {
	return batches{prefix: nuid.Next(), sent: map[string]*batch{}, undecided: map[string]uint64{}}
}

func (b *batches) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sent) > 0
}

func (b *batches) begin(writes []*write) *batch {
	b.last++
	one := &batch{id: b.prefix + strconv.FormatUint(b.last, 36), sent: writes[0].sent, writes: writes, done: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[one.id] = one
	return one
}

// end ends the wait for a batch.
func (b *batches) end(one *batch, err error) {
	one.timer.Stop()
	one.stored = err == nil
	b.mu.Lock()
	delete(b.sent, one.id)
	if err != nil && !refused(err) && !errors.Is(err, ErrNotSent) {
		b.undecided[one.id] = one.sent
	}
	b.mu.Unlock()
	close(one.done)
}

// decide takes the answer to a batch that came after its time.
func (b *batches) decide(one *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.undecided, one.id)
}

// storedSince takes the confirmation of something that was sent later than some batches. It
// decides them: the server answers a stream's writes in their order, and stores nothing more
// in a stream whose sync has failed.
func (b *batches) storedSince(sent uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.undecided, func(_ string, of uint64) bool { return of < sent })
}

// Settled waits until it is known what became of the batch that a message is part of, and
// reports whether that is stored for good: the server may show the messages of a batch, and
// answer reads of them, where it could not sync the batch. A batch whose answer does not come
// is not stored as far as is known, until something is that was written after it. A message of
// no batch of this writer is stored.
func (w *Writer) Settled(h nats.Header) bool {
	id := h[headerBatch]
	if len(id) == 0 {
		return true
	}
	w.batches.mu.Lock()
	one := w.batches.sent[id[0]]
	_, undecided := w.batches.undecided[id[0]]
	w.batches.mu.Unlock()
	if one == nil {
		return !undecided
	}
	<-one.done // within Options.Timeout
	return one.stored
}

// shares reports whether what waits is to go as one batch. Those that no batch may have are
// not kept waiting by one batch after the other. It needs the lock.
func (w *Writer) shares() bool {
	if w.o.ShareFrom == 0 || w.batches.open() {
		return false
	}
	if w.lanes[Jobs].alone.live+w.lanes[Inline].alone.live > 0 && w.singles < mostSynced {
		return false
	}
	return len(w.batches.halves) > 0 || w.lanes[Jobs].shared.live+w.lanes[Inline].shared.live >= w.o.ShareFrom
}

// sendBatch sends half of a batch that was refused, or what waits. It needs the lock.
func (w *Writer) sendBatch() {
	writes := w.half()
	if len(writes) == 0 {
		writes = w.gather()
	}
	if len(writes) == 0 {
		return
	}
	for _, op := range writes {
		w.begin(op)
	}
	w.singles = 0
	one := w.batches.begin(writes)
	one.timer = time.AfterFunc(w.o.Timeout, func() { w.committed(one, nil, nats.ErrTimeout) })
	if err := w.publishBatch(one); err != nil {
		w.finish(one, nil, notSent(err))
	}
}

// half takes half of a batch that was refused.
func (w *Writer) half() (writes []*write) {
	for len(writes) == 0 && len(w.batches.halves) > 0 {
		for _, op := range w.batches.halves[0] {
			if op.abandoned {
				op.state = done
				op.result <- result{err: ErrNotSent}
				continue
			}
			writes = append(writes, op)
		}
		w.batches.halves = w.batches.halves[1:]
	}
	return writes
}

// gather takes what waits, as far as one batch may have it: of each subject one message, as the
// server refuses a batch that writes to a subject and then expects a sequence of it. Inline
// events have at most half.
func (w *Writer) gather() []*write {
	bytes, subjects := 0, map[string]bool{}
	upTo := func(most int) func(*write) choice {
		return func(op *write) choice {
			size := op.size()
			switch {
			case most == 0 || bytes+size > mostSharedBytes:
				return stop
			case subjects[op.m.Subject]:
				return left
			}
			most--
			bytes, subjects[op.m.Subject] = bytes+size, true
			return taken
		}
	}
	inline := min(w.lanes[Inline].shared.live, mostShared/2)
	writes := w.lanes[Jobs].shared.take(upTo(mostShared - inline))
	return append(writes, w.lanes[Inline].shared.take(upTo(inline))...)
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

// finish ends a batch. One that is refused stores nothing, and goes again in halves, and in the
// end one by one: the server says of each message what is wrong with it. It needs the lock.
func (w *Writer) finish(one *batch, m *nats.Msg, err error) {
	var ack Ack
	var count int
	if err == nil {
		ack, count, err = decode(m)
	}
	select {
	case <-one.done: // the time was over before
		if err == nil || refused(err) {
			w.batches.decide(one)
		}
		return
	default:
	}
	if err == nil && count != len(one.writes) {
		err = errors.New("the answer to a batch is of another number of messages")
	}
	w.batches.end(one, err)
	writes := one.writes
	one.writes = nil // its answer may come yet
	if refused(err) {
		w.repeat(writes)
		return
	}
	if err == nil {
		w.batches.storedSince(one.sent)
	}
	first := ack.Seq - uint64(len(writes)) + 1 // they are stored one after the other
	for i, op := range writes {
		r := result{err: err}
		if err == nil {
			r.ack = Ack{Seq: first + uint64(i)}
		}
		w.settle(op, r)
	}
}

// repeat has the writes of a refused batch sent again.
func (w *Writer) repeat(writes []*write) {
	for _, op := range writes {
		w.inFlight[op.lane]--
	}
	if n := len(writes) / 2; n >= w.o.ShareFrom {
		w.batches.halves = append(w.batches.halves, writes[:n], writes[n:])
		return
	}
	for _, op := range writes {
		if op.abandoned {
			op.state = done
			op.result <- result{err: ErrNotSent}
			continue
		}
		w.lanes[op.lane].alone.push(op)
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

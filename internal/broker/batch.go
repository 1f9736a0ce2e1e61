package broker

import (
	"errors"
	"maps"
	"math"
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
	asked  time.Time  // when the last question was sent

	mu        sync.Mutex
	sent      map[string]*batch    // by id; those whose answer has not come
	undecided map[string]undecided // by id; those without an answer, and a lost one may stay
	looking   bool                 // whether the stream has met an error
}

// undecided is a batch of which it is not known whether it is stored for good. An answer to
// what was sent behind it decides it.
type undecided struct {
	place
	subject string // of one of its messages
}

// place is one in the order in which the server answers what a writer has sent. Where the
// connection was lost there is no such order: the server may take what is left of the old one
// after what came by the new one.
type place struct {
	connection uint64 // as replies.connection says
	sent       uint64 // in streamWriter.sends
}

func (p place) isBehind(other place) bool {
	return p.connection == other.connection && p.sent > other.sent
}

// batch is one of them. stored is set before done is closed.
type batch struct {
	place
	id     string
	writes []*write
	done   chan struct{}
	stored bool
	timer  *time.Timer
}

func newBatches() batches {
	return batches{prefix: nuid.Next(), sent: map[string]*batch{}, undecided: map[string]undecided{}}
}

func (b *batches) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sent) > 0
}

func (b *batches) begin(writes []*write, at place) *batch {
	b.last++
	one := &batch{place: at, id: b.prefix + strconv.FormatUint(b.last, 36), writes: writes, done: make(chan struct{})}
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
	if err != nil && !nothingStored(err) && !errors.Is(err, errNotSent) {
		b.undecided[one.id] = undecided{one.place, one.writes[0].m.Subject}
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

// processed takes any answer of the stream to something that was sent. It decides the batches
// before that where the stream has met no error, as the server answers the writes of a stream in
// their order, and syncs a batch before it goes on. The connection is that of now: where it is
// the one of a batch, what was sent between the two went by it too. No write waits for what
// Sound says, and no answer; one that comes meanwhile decides nothing.
func (w *streamWriter) processed(sent uint64) {
	b := &w.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.looking || len(b.undecided) == 0 {
		return
	}
	at := place{w.replies.connection(), sent}
	for _, u := range b.undecided {
		b.looking = b.looking || at.isBehind(u.place)
	}
	if !b.looking {
		return
	}
	go func() {
		sound := w.o.Sound()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.looking = false
		if sound {
			maps.DeleteFunc(b.undecided, func(_ string, u undecided) bool { return at.isBehind(u.place) })
		}
	}()
}

// askEvery is how often the server is asked about a batch whose answer did not come.
const askEvery = time.Second

// ask has the server answer behind a batch of which a message was read: it refuses to store a
// message as the successor of one that cannot be. As the server had the batch when it was read,
// what is sent from now on is behind it, also where its connection was lost.
func (w *streamWriter) ask(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	subject, undecided := w.batches.wasRead(id, place{w.replies.connection(), w.sends})
	if now := time.Now(); undecided && now.Sub(w.batches.asked) >= askEvery {
		w.batches.asked = now
		m := nats.NewMsg(subject)
		m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(math.MaxUint64, 10)}
		op := &write{m: m, lane: Jobs, result: make(chan writeResult, 1)}
		w.sendAlone(op)
		time.AfterFunc(w.o.Timeout, func() { w.giveUp(op) })
	}
}

// giveUp ends the wait for the answer to a question, which has no caller that would: unanswered
// ones would fill the window.
func (w *streamWriter) giveUp(op *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op.state == writeInFlight && w.replies.forget(op.id) {
		w.complete(op, writeResult{})
		w.send()
	}
}

// wasRead has a batch of a connection that was lost stand where the writer is, and tells the
// subject of one of its messages where it is undecided.
func (b *batches) wasRead(id string, now place) (subject string, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, is := b.undecided[id]
	if is && u.connection != now.connection {
		u.place = now
		b.undecided[id] = u
	}
	return u.subject, is
}

// settled waits until it is known what became of the batch that a message is part of, and
// reports whether that is stored for good: the server may show the messages of a batch, and
// answer reads of them, where it could not sync the batch. One whose answer did not come is not
// stored as far as is known; the server is asked about it, so that a later call knows more. A
// message of no batch of this writer is stored.
func (w *streamWriter) settled(h nats.Header) bool {
	id := h[headerBatch]
	if len(id) == 0 {
		return true
	}
	w.batches.mu.Lock()
	one := w.batches.sent[id[0]]
	_, undecided := w.batches.undecided[id[0]]
	w.batches.mu.Unlock()
	switch {
	case undecided:
		w.ask(id[0])
		return false
	case one == nil:
		return true
	}
	<-one.done // within streamOptions.Timeout
	return one.stored
}

// nextBatch takes what is to go as one batch: half of one that was refused, or what waits. Those
// that no batch may have are not kept waiting by one batch after the other. It needs the lock.
func (w *streamWriter) nextBatch() []*write {
	if w.o.ShareFrom == 0 || w.batches.open() {
		return nil
	}
	if w.lanes[Jobs].alone.live+w.lanes[Inline].alone.live > 0 && w.singles < mostSynced {
		return nil
	}
	if writes := w.half(); len(writes) > 0 {
		return writes
	}
	if w.lanes[Jobs].shared.live+w.lanes[Inline].shared.live < w.o.ShareFrom || !w.o.Room() {
		return nil
	}
	return w.gather()
}

// sendBatch needs the lock.
func (w *streamWriter) sendBatch(writes []*write) {
	at := place{w.replies.connection(), w.sends + 1}
	for _, op := range writes {
		w.begin(op)
	}
	w.singles = 0
	one := w.batches.begin(writes, at)
	one.timer = time.AfterFunc(w.o.Timeout, func() { w.committed(one, nil, nats.ErrTimeout) })
	if err := w.publishBatch(one); err != nil {
		w.finish(one, nil, notSent(err))
	}
}

// half takes half of a batch that was refused.
func (w *streamWriter) half() (writes []*write) {
	for len(writes) == 0 && len(w.batches.halves) > 0 {
		for _, op := range w.batches.halves[0] {
			if op.state == writeQueued { // not given up
				writes = append(writes, op)
			}
		}
		w.batches.halves = w.batches.halves[1:]
	}
	return writes
}

// gather takes what waits, as far as one batch may have it: of each subject one message, as the
// server refuses a batch that writes to a subject and then expects a sequence of it. Inline
// events have half of its messages and bytes at most, and are not crowded out.
func (w *streamWriter) gather() []*write {
	bytes, subjects := 0, map[string]bool{}
	upTo := func(most, mostBytes int) func(*write) choice {
		return func(op *write) choice {
			size := op.size()
			switch {
			case most == 0 || bytes+size > mostBytes:
				return choiceStop
			case subjects[op.m.Subject]:
				return choiceLeave
			}
			most--
			bytes, subjects[op.m.Subject] = bytes+size, true
			return choiceTake
		}
	}
	inline := w.lanes[Inline].shared.take(upTo(mostShared/2, mostSharedBytes/2))
	return append(inline, w.lanes[Jobs].shared.take(upTo(mostShared-len(inline), mostSharedBytes))...)
}

// publishBatch sends the messages of a batch. The last one has it committed, and has the
// answer for all: what was wrong with an earlier one makes that incomplete.
func (w *streamWriter) publishBatch(one *batch) error {
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
func (w *streamWriter) committed(one *batch, m *nats.Msg, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(one, m, err)
	w.send()
}

// finish ends a batch. One that is refused stores nothing, and goes again in halves, and in the
// end one by one: the server says of each message what is wrong with it. It needs the lock.
func (w *streamWriter) finish(one *batch, m *nats.Msg, err error) {
	var ack Ack
	var count int
	if err == nil {
		ack, count, err = decodeAck(m)
	}
	select {
	case <-one.done: // the time was over before
		if err == nil || nothingStored(err) {
			w.batches.decide(one)
			w.processed(one.sent)
		}
		return
	default:
	}
	if err == nil && count != len(one.writes) {
		err = errors.New("the answer to a batch has a wrong number of messages")
	}
	w.batches.end(one, err)
	writes := one.writes
	one.writes = nil // its answer may come yet
	if nothingStored(err) {
		w.repeat(writes)
		return
	}
	if err == nil {
		w.processed(one.sent)
	}
	first := ack.Seq - uint64(len(writes)) + 1 // they are stored one after the other
	for i, op := range writes {
		r := writeResult{err: err}
		if err == nil {
			r.ack = Ack{Seq: first + uint64(i)}
		}
		w.complete(op, r)
	}
}

// repeat has the writes of a refused batch sent again. Those whose callers have gone away are
// not.
func (w *streamWriter) repeat(writes []*write) {
	again := writes[:0]
	for _, op := range writes {
		w.inFlight[op.lane]--
		if op.abandoned {
			op.state = writeDone
			continue
		}
		again = append(again, op)
	}
	if n := len(again) / 2; n >= w.o.ShareFrom {
		for _, op := range again {
			op.state, op.waits = writeQueued, nil
		}
		w.batches.halves = append(w.batches.halves, again[:n], again[n:])
		return
	}
	for _, op := range again {
		w.lanes[op.lane].alone.push(op)
	}
}

// nothingStored reports whether the server has certainly stored nothing of a batch.
func nothingStored(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.Code < 500 || api.ErrorCode == codeStoreFailed || api.ErrorCode == codeInsufficientResources)
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

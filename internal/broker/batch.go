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

// Headers of an atomic batch (NATS ADR 50).
const (
	headerBatch    = "Nats-Batch-Id"
	headerSequence = "Nats-Batch-Sequence"
	headerCommit   = "Nats-Batch-Commit"
)

// These constants limit a batch. The server accepts up to 1,000 messages.
const (
	maxShared      = 500
	maxSharedBytes = 2 << 20
	// largestShared is the size, in bytes, above which a message is sent alone.
	largestShared = 128 << 10
)

// batches tracks a writer's atomic batches. Only one is in flight at a time. The fields above mu
// are guarded by streamWriter.mu.
type batches struct {
	prefix string
	last   uint64
	halves [][]*write // halves of refused batches that must be sent again
	asked  time.Time  // when ask last sent a question

	mu        sync.Mutex
	sent      map[string]*batch    // in flight, by ID
	undecided map[string]undecided // unanswered batches by ID; those that were never stored stay here
	looking   bool                 // a call of Sound is running
}

// undecided is a batch that may or may not be durably stored, because it got no answer. The answer
// to a later write resolves it.
type undecided struct {
	place
	subject string // of one of its messages
}

// place is a position in the order in which the server answers a writer. The order holds only
// within one connection, because the server may still process messages of an old connection after
// messages of the new one.
type place struct {
	connection uint64 // replies.connection
	sent       uint64 // streamWriter.sends
}

func (p place) isBehind(other place) bool {
	return p.connection == other.connection && p.sent > other.sent
}

// batch is a batch in flight. stored is valid once done is closed.
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

// end records the outcome of a batch and wakes its waiters.
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

// decide handles a conclusive answer that arrived after the timeout.
func (b *batches) decide(one *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.undecided, one.id)
}

// processed handles an answer from the stream to the write numbered sent. The server answers a
// stream's writes in order and syncs a batch before it continues. Unless the stream has had an
// error, the answer therefore resolves all earlier batches of the same connection. If a batch was
// sent over the current connection, everything sent after it went over that connection too.
//
// Sound may wait for the disk, so it runs in a goroutine. Answers that arrive in the meantime are
// ignored.
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

// askEvery is the minimum interval between questions to the server about undecided batches.
const askEvery = time.Second

// ask resolves the undecided batch id after one of its messages was read. To do so, it sends a
// question: a write that the server always refuses, because its expected last sequence cannot
// exist. The server had the batch when the message was read. It therefore processes the question
// after the batch, even if the batch's connection was lost.
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

// giveUp stops waiting for the answer to a question. No caller waits for a question, and unanswered
// ones would fill the window.
func (w *streamWriter) giveUp(op *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op.state == writeInFlight && w.replies.remove(op.id) {
		w.complete(op, writeResult{})
		w.send()
	}
}

// wasRead returns the subject of one of the batch's messages and whether the batch is undecided. If
// the batch's connection was lost, wasRead moves the batch to now, because the server has it.
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

// synced reports whether the message with headers h is durably stored. If its batch is in flight,
// synced waits, because the server may deliver messages of a batch that it could not sync. A batch
// without an answer counts as not stored, but synced asks the server about it, so a later call may
// return true. Messages outside this writer's batches count as stored.
func (w *streamWriter) synced(h nats.Header) bool {
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
	<-one.done // bounded by streamOptions.Timeout
	return one.stored
}

// nextBatch removes and returns the writes of the next batch, which are half of a refused batch or
// waiting writes. If there are writes in alone queues, some of them go first, so that successive
// batches do not starve them. The caller holds w.mu.
func (w *streamWriter) nextBatch() []*write {
	if w.o.ShareFrom == 0 || w.batches.open() {
		return nil
	}
	if w.lanes[Jobs].alone.live+w.lanes[Inline].alone.live > 0 && w.singles < maxSynced {
		return nil
	}
	if writes := w.half(); len(writes) > 0 {
		return writes
	}
	if w.lanes[Jobs].shared.live+w.lanes[Inline].shared.live < w.o.ShareFrom || !w.o.HasCapacity() {
		return nil
	}
	return w.gather()
}

// sendBatch sends writes as one batch. The caller holds w.mu.
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

// half removes and returns the writes of half of a refused batch, except abandoned ones.
func (w *streamWriter) half() (writes []*write) {
	for len(writes) == 0 && len(w.batches.halves) > 0 {
		for _, op := range w.batches.halves[0] {
			if op.state == writeQueued { // not abandoned
				writes = append(writes, op)
			}
		}
		w.batches.halves = w.batches.halves[1:]
	}
	return writes
}

// gather removes and returns waiting writes for one batch. It takes one message per subject,
// because the server refuses a batch that expects a sequence on a subject to which it has already
// written. Inline events go first, with up to half of the messages and bytes, so that jobs do not
// crowd them out.
func (w *streamWriter) gather() []*write {
	bytes, subjects := 0, map[string]bool{}
	upTo := func(remaining, maxBytes int) func(*write) choice {
		return func(op *write) choice {
			size := op.size()
			switch {
			case remaining == 0 || bytes+size > maxBytes:
				return choiceStop
			case subjects[op.m.Subject]:
				return choiceKeep
			}
			remaining--
			bytes, subjects[op.m.Subject] = bytes+size, true
			return choiceTake
		}
	}
	inline := w.lanes[Inline].shared.take(upTo(maxShared/2, maxSharedBytes/2))
	return append(inline, w.lanes[Jobs].shared.take(upTo(maxShared-len(inline), maxSharedBytes))...)
}

// publishBatch publishes the messages of a batch. The last one commits the batch and carries the
// reply subject. If an earlier message failed, the server answers that the batch is incomplete.
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

// committed handles the answer to a batch, a timeout or the loss of the connection.
func (w *streamWriter) committed(one *batch, m *nats.Msg, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish(one, m, err)
	w.send()
}

// finish ends a batch. A refused batch stored nothing. Its writes are sent again in halves, and
// finally one by one, so that each gets its own answer. The caller holds w.mu.
func (w *streamWriter) finish(one *batch, m *nats.Msg, err error) {
	var ack Ack
	var count int
	if err == nil {
		ack, count, err = decodeAck(m)
	}
	select {
	case <-one.done: // timed out earlier
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
	one.writes = nil // one stays referenced until a late answer arrives
	if nothingStored(err) {
		w.repeat(writes)
		return
	}
	if err == nil {
		w.processed(one.sent)
	}
	first := ack.Seq - uint64(len(writes)) + 1 // sequences of a batch are consecutive
	for i, op := range writes {
		r := writeResult{err: err}
		if err == nil {
			r.ack = Ack{Seq: first + uint64(i)}
		}
		w.complete(op, r)
	}
}

// repeat requeues the writes of a refused batch, except abandoned ones.
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

// nothingStored reports whether err proves that the server stored no message of a batch.
func nothingStored(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.Code < 500 || api.ErrorCode == codeStoreFailed || api.ErrorCode == codeInsufficientResources)
}

func (op *write) size() int {
	n := len(op.m.Data)
	for key, values := range op.m.Header {
		for _, v := range values {
			n += len(key) + len(v)
		}
	}
	return n
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const testShareFrom = 8

// world is a server with a stream that listens to log.>, and a writer to it.
type world struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	replies *replies
	writer  *streamWriter
}

func newWorld(t *testing.T, o streamOptions) world {
	t.Helper()
	nc, js := serve(t, t.TempDir(), o.ShareFrom > 0)
	replies := newReplies()
	if err := replies.subscribe(nc); err != nil {
		t.Fatal(err)
	}
	o.Timeout, o.HasCapacity, o.Sound = 5*time.Second, yesAlways, yesAlways
	return world{nc: nc, js: js, replies: replies, writer: newStreamWriter(replies, o)}
}

func yesAlways() bool { return true }

// message returns a message with expected last sequence last.
func message(subject string, last uint64, data string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return m
}

// is checks the message with sequence seq and returns its batch ID, if any.
func (w world) is(t *testing.T, seq uint64, subject, data string) (batch string) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), "LOG")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), seq)
	if err != nil {
		t.Fatalf("sequence %d: %v", seq, err)
	}
	if m.Subject != subject || string(m.Data) != data {
		t.Errorf("sequence %d is %s %q, want %s %q", seq, m.Subject, m.Data, subject, data)
	}
	return m.Header.Get("Nats-Batch-Id")
}

// TestEachWriterIsGivenItsOwnAnswer proves that concurrent writers, alone or in batches, each get
// the answers to their own writes.
func TestEachWriterIsGivenItsOwnAnswer(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]streamOptions{"pipelined": {}, "shared": {ShareFrom: testShareFrom}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, o)
			const writers, each = 100, 5
			var batched atomic.Int64
			var group sync.WaitGroup
			for i := range writers {
				group.Go(func() {
					subject, last := fmt.Sprintf("log.%d", i), uint64(0)
					for n := range each {
						data := strconv.Itoa(n)
						ack, err := w.writer.write(t.Context(), message(subject, last, data), Lane(i%2), nil)
						if err != nil {
							t.Error(err)
							return
						}
						if last = ack.Seq; w.is(t, last, subject, data) != "" {
							batched.Add(1)
						}
					}
				})
			}
			group.Wait()
			if some := batched.Load() > 0; some != (o.ShareFrom > 0) {
				t.Errorf("%d of the messages were part of a batch", batched.Load())
			}
		})
	}
}

func (w world) together(t *testing.T, writes ...*nats.Msg) []error {
	t.Helper()
	errs := make([]error, len(writes))
	var group sync.WaitGroup
	for i, m := range writes {
		group.Go(func() { _, errs[i] = w.writer.write(t.Context(), m, Jobs, nil) })
	}
	group.Wait()
	return errs
}

// TestAConflictRefusesItsOwnWrite proves that a conflict does not fail the other writes of its
// batch.
func TestAConflictRefusesItsOwnWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	if _, err := w.writer.write(t.Context(), message("log.taken", 0, "first"), Jobs, nil); err != nil {
		t.Fatal(err)
	}
	var writes []*nats.Msg
	for i := range 60 {
		writes = append(writes, message(fmt.Sprintf("log.%d", i), 0, "x"))
	}
	writes = append(writes, message("log.taken", 0, "second"))
	errs := w.together(t, writes...)
	for i, err := range errs[:60] {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if api, ok := errors.AsType[*jetstream.APIError](errs[60]); !ok || api.ErrorCode != 10071 {
		t.Errorf("the write that is too late: %v", errs[60])
	}
}

// TestTwoWritesOnOneSubject proves that one of two concurrent writes with the same expected
// sequence succeeds.
func TestTwoWritesOnOneSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	var writes []*nats.Msg
	for i := range 40 {
		writes = append(writes, message(fmt.Sprintf("log.%d", i/2), 0, strconv.Itoa(i)))
	}
	errs := w.together(t, writes...)
	for i := 0; i < len(errs); i += 2 {
		if (errs[i] == nil) == (errs[i+1] == nil) {
			t.Errorf("writes on log.%d: %v and %v; want one of them stored", i/2, errs[i], errs[i+1])
		}
	}
}

// TestALargeMessageGoesAlone proves that a large message is stored outside the batch of the others.
func TestALargeMessageGoesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	large := message("log.large", 0, string(make([]byte, 200<<10)))
	writes := []*nats.Msg{large}
	for i := range 40 {
		writes = append(writes, message(fmt.Sprintf("log.%d", i), 0, "x"))
	}
	if err := errors.Join(w.together(t, writes...)...); err != nil {
		t.Fatal(err)
	}
	s, err := w.js.Stream(t.Context(), "LOG")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), "log.large")
	if err != nil || m.Header.Get("Nats-Batch-Id") != "" {
		t.Errorf("the large message: %v, batch %q", err, m.Header.Get("Nats-Batch-Id"))
	}
}

// TestWritesThatNoStreamAcceptsFail proves that writes to unknown subjects and oversized writes
// fail with errors that tell nothing was stored.
func TestWritesThatNoStreamAcceptsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{})
	if _, err := w.writer.write(t.Context(), message("nowhere", 0, "x"), Jobs, nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("no stream: %v", err)
	}
	large := message("log.1", 0, string(make([]byte, w.nc.MaxPayload()+1)))
	_, err := w.writer.write(t.Context(), large, Jobs, nil)
	if !errors.Is(err, errNotSent) || !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a message that is too large: %v", err)
	}
}

// unanswered returns a writer and a subject whose messages are received but never answered.
func unanswered(t *testing.T, window int) (world, <-chan *nats.Msg) {
	t.Helper()
	w := newWorld(t, streamOptions{Window: window})
	got := make(chan *nats.Msg, 100)
	if _, err := w.nc.ChanSubscribe("silent", got); err != nil {
		t.Fatal(err)
	}
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return w, got
}

// TestALostConnectionEndsWhatWaits proves that writes in flight fail with an unknown outcome.
func TestALostConnectionEndsWhatWaits(t *testing.T) {
	t.Parallel()
	w, got := unanswered(t, 10)
	failed := make(chan error, 1)
	go func() {
		_, err := w.writer.write(t.Context(), nats.NewMsg("silent"), Jobs, nil)
		failed <- err
	}()
	<-got
	w.replies.lost()
	if err := <-failed; !errors.Is(err, nats.ErrDisconnected) || errors.Is(err, errNotSent) {
		t.Errorf("the write ended with %v", err)
	}
}

// TestTheWindowIsBounded proves that writes beyond the window wait, that inline events use at most
// half of it, and that an abandoned write frees its place.
func TestTheWindowIsBounded(t *testing.T) {
	t.Parallel()
	w, got := unanswered(t, 4)
	begin := func(lane Lane) (giveUp func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := w.writer.write(ctx, nats.NewMsg("silent"), lane, nil)
			failed <- err
		}()
		return func() error {
			cancel()
			return <-failed
		}
	}
	sent := func(n int) {
		t.Helper()
		for range n {
			<-got
		}
		if err := w.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if more := len(got); more > 0 {
			t.Fatalf("%d more are sent than the window allows", more)
		}
	}
	inline := []func() error{begin(Inline), begin(Inline), begin(Inline)}
	sent(2)
	jobs := []func() error{begin(Jobs), begin(Jobs)}
	sent(2)
	queued := begin(Jobs)
	if err := jobs[0](); !errors.Is(err, context.Canceled) || errors.Is(err, errNotSent) {
		t.Errorf("a write that was sent, and given up: %v", err)
	}
	sent(1) // the queued one
	waits := begin(Jobs)
	if err := waits(); !errors.Is(err, errNotSent) {
		t.Errorf("a write that was given up before it was sent: %v", err)
	}
	for _, giveUp := range append(inline, jobs[1], queued) {
		if err := giveUp(); err == nil {
			t.Error("a write that was given up succeeded")
		}
	}
}

// TestRepublishedMessagesAreSynced proves that a reader of a republished message waits for the
// answer to its batch.
func TestRepublishedMessagesAreSynced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	type seen struct{ batched, synced bool }
	received := make(chan seen, 200)
	_, err := w.nc.Subscribe("live.log.>", func(m *nats.Msg) {
		received <- seen{m.Header.Get("Nats-Batch-Id") != "", w.writer.synced(m.Header)}
	})
	if err != nil {
		t.Fatal(err)
	}
	var writes []*nats.Msg
	for i := range cap(received) {
		writes = append(writes, message(fmt.Sprintf("log.%d", i), 0, "x"))
	}
	if err := errors.Join(w.together(t, writes...)...); err != nil {
		t.Fatal(err)
	}
	batched := 0
	for range writes {
		s := <-received
		if !s.synced {
			t.Error("a message is not stored whose write succeeded")
		}
		if s.batched {
			batched++
		}
	}
	if batched == 0 {
		t.Error("no message was part of a batch")
	}
}

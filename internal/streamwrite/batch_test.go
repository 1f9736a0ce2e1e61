package streamwrite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/streamwrite"
)

// TestALargeMessageIsNotKeptWaiting by batches, of which there is always one to send.
func TestALargeMessageIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamwrite.Options{ShareFrom: shareFrom})
	stored := make(chan struct{})
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stored:
					return
				default:
				}
				if _, err := w.writer.Write(t.Context(), message(fmt.Sprintf("log.%d.%d", i, n), 0, "x"), streamwrite.Jobs); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	_, err := w.writer.Write(t.Context(), message("log.large", 0, string(make([]byte, 200<<10))), streamwrite.Jobs)
	close(stored)
	group.Wait()
	if err != nil {
		t.Error(err)
	}
}

// mute is a server of log.> whose answers the test gives.
type mute struct {
	world
	got chan *nats.Msg
}

func newMute(t *testing.T, timeout time.Duration) mute {
	t.Helper()
	m := mute{newWorld(t, streamwrite.Options{}), make(chan *nats.Msg, 100)}
	if err := m.js.DeleteStream(t.Context(), "LOG"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.nc.ChanSubscribe("log.>", m.got); err != nil {
		t.Fatal(err)
	}
	m.writer = streamwrite.New(m.replies, streamwrite.Options{ShareFrom: 1, Timeout: timeout}) // each is a batch
	return m
}

// write begins to write, and gives the message as the server has it.
func (m mute) write(ctx context.Context, subject string) (sent *nats.Msg, result <-chan error) {
	failed := make(chan error, 1)
	go func() {
		_, err := m.writer.Write(ctx, nats.NewMsg(subject), streamwrite.Jobs)
		failed <- err
	}()
	return <-m.got, failed
}

func (m mute) answer(t *testing.T, to *nats.Msg, with string) {
	t.Helper()
	if err := m.nc.Publish(to.Reply, []byte(with)); err != nil {
		t.Fatal(err)
	}
}

const (
	yes = `{"stream":"LOG","seq":7,"batch":"b","count":1}`
	no  = `{"stream":"LOG","error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}`
)

// TestABatchWithoutAnAnswerIsNotSettled, until something is stored that was written after it,
// or the answer comes after all.
func TestABatchWithoutAnAnswerIsNotSettled(t *testing.T) {
	t.Parallel()
	m := newMute(t, 20*time.Millisecond)
	first, failed := m.write(t.Context(), "log.1")
	if err := <-failed; !errors.Is(err, nats.ErrTimeout) || errors.Is(err, streamwrite.ErrNotSent) {
		t.Errorf("a batch without an answer: %v", err)
	}
	if m.writer.Settled(first.Header) {
		t.Error("a batch without an answer is settled")
	}
	second, failed := m.write(t.Context(), "log.2")
	m.answer(t, second, yes)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !m.writer.Settled(first.Header) || !m.writer.Settled(second.Header) {
		t.Error("something was stored that was written after a batch, which is not settled")
	}

	third, failed := m.write(t.Context(), "log.3")
	if err := <-failed; err == nil {
		t.Error("a batch without an answer is stored")
	}
	if m.writer.Settled(third.Header) {
		t.Error("a batch without an answer is settled")
	}
	fourth, failed := m.write(t.Context(), "log.4")
	m.answer(t, third, yes)
	m.answer(t, fourth, no)
	m.answer(t, <-m.got, no) // and by itself
	if err := <-failed; err == nil {
		t.Error("a write that was refused is stored")
	}
	if !m.writer.Settled(third.Header) {
		t.Error("a batch whose answer came late is not settled")
	}
}

// TestWhatWasGivenUpMakesNoBatch: writes whose callers have gone away while they waited.
func TestWhatWasGivenUpMakesNoBatch(t *testing.T) {
	t.Parallel()
	m := newMute(t, time.Minute)
	first, stored := m.write(t.Context(), "log.1")
	cause := errors.New("no answer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := m.writer.Write(ctx, nats.NewMsg("log.2"), streamwrite.Jobs); !errors.Is(err, streamwrite.ErrNotSent) || errors.Is(err, cause) {
		t.Errorf("a write that was given up before it was sent: %v", err)
	}
	m.answer(t, first, yes)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	third, stored := m.write(t.Context(), "log.3")
	m.answer(t, third, yes)
	if err := <-stored; err != nil || third.Subject != "log.3" {
		t.Errorf("the write after one that was given up: %v, as %s", err, third.Subject)
	}
}

// TestOneConflictDoesNotSyncTheOthersOneByOne: the halves of a batch without it are batches.
func TestOneConflictDoesNotSyncTheOthersOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamwrite.Options{ShareFrom: shareFrom})
	taken, err := w.writer.Write(t.Context(), message("log.taken", 0, "first"), streamwrite.Jobs)
	if err != nil {
		t.Fatal(err)
	}
	const others = 200
	writes := []*nats.Msg{message("log.taken", taken.Seq+1, "second")}
	for i := range others {
		writes = append(writes, message(fmt.Sprintf("log.%d", i), 0, "x"))
	}
	errs := w.together(t, writes...)
	if errs[0] == nil {
		t.Error("the conflict is stored")
	}
	if err := errors.Join(errs[1:]...); err != nil {
		t.Fatal(err)
	}
	s, err := w.js.Stream(t.Context(), "LOG")
	if err != nil {
		t.Fatal(err)
	}
	alone := 0
	for seq := taken.Seq + 1; seq <= taken.Seq+others; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Nats-Batch-Id") == "" {
			alone++
		}
	}
	if alone > others/2 {
		t.Errorf("%d of %d were written one by one", alone, others)
	}
}

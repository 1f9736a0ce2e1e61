package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestALargeMessageIsNotKeptWaiting proves that an endless sequence of batches does not starve a
// large message.
func TestALargeMessageIsNotKeptWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
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
				if _, err := w.writer.write(t.Context(), message(fmt.Sprintf("log.%d.%d", i, n), 0, "x"), Jobs, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	_, err := w.writer.write(t.Context(), message("log.large", 0, string(make([]byte, 200<<10))), Jobs, nil)
	close(stored)
	group.Wait()
	if err != nil {
		t.Error(err)
	}
}

// mute is a server of log.> whose answers come from the test. broken makes Sound report an error,
// and looks receives a value for each call of Sound.
type mute struct {
	world
	got    chan *nats.Msg
	broken *atomic.Bool
	looks  chan struct{}
}

// answerDue is the timeout of a batch without an answer. Every answered batch is answered earlier.
const answerDue = 3 * time.Second

func newMute(t *testing.T, timeout time.Duration) mute {
	t.Helper()
	m := mute{newWorld(t, streamOptions{}), make(chan *nats.Msg, 100), &atomic.Bool{}, make(chan struct{}, 100)}
	if err := m.js.DeleteStream(t.Context(), "LOG"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.nc.ChanSubscribe("log.>", m.got); err != nil {
		t.Fatal(err)
	}
	m.writer = newStreamWriter(m.replies, streamOptions{ // one write per batch
		ShareFrom: 1, Timeout: timeout, HasCapacity: yesAlways, Sound: func() bool {
			m.looks <- struct{}{}
			return !m.broken.Load()
		},
	})
	return m
}

// write starts a write and returns the message as the server received it.
func (m mute) write(ctx context.Context, subject string) (sent *nats.Msg, result <-chan error) {
	failed := make(chan error, 1)
	go func() {
		_, err := m.writer.write(ctx, nats.NewMsg(subject), Jobs, nil)
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

// awaitSynced waits until the batch of a message is synced and refuses the questions about it.
func (m mute) awaitSynced(t *testing.T, h nats.Header) {
	t.Helper()
	for tick := time.NewTicker(time.Millisecond); !m.writer.synced(h); {
		select {
		case question := <-m.got:
			m.answer(t, question, no)
		case <-tick.C: // an answer is being processed
		}
	}
}

const (
	yes = `{"stream":"LOG","seq":7,"batch":"b","count":1}`
	no  = `{"stream":"LOG","error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}`
)

// TestABatchWithoutAnAnswerIsNotSynced proves that a batch without an answer stays unsynced until
// the server answers something sent later and reports no error.
func TestABatchWithoutAnAnswerIsNotSynced(t *testing.T) {
	t.Parallel()
	m := newMute(t, answerDue)
	first, failed := m.write(t.Context(), "log.1")
	if err := <-failed; !errors.Is(err, nats.ErrTimeout) || errors.Is(err, errNotSent) {
		t.Errorf("a batch without an answer: %v", err)
	}
	m.broken.Store(true)
	if m.writer.synced(first.Header) {
		t.Error("a batch without an answer is synced")
	}
	question := <-m.got
	if question.Subject != "log.1" || question.Header.Get("Nats-Batch-Id") != "" || question.Header.Get("Nats-Expected-Last-Subject-Sequence") == "" {
		t.Errorf("the server is asked by %s with %v", question.Subject, question.Header)
	}
	m.answer(t, question, no)
	<-m.looks
	second, failed := m.write(t.Context(), "log.2")
	m.answer(t, second, yes)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if m.writer.synced(first.Header) {
		t.Error("a batch that a server could not sync is synced")
	}
	m.broken.Store(false)
	third, failed := m.write(t.Context(), "log.3")
	m.answer(t, third, no)
	m.answer(t, <-m.got, no) // resent alone
	if err := <-failed; err == nil {
		t.Error("a write that was refused is stored")
	}
	m.awaitSynced(t, first.Header)
}

// TestWritesAndAnswersDoNotWaitForALook proves that a slow call of Sound delays neither writes nor
// answers.
func TestWritesAndAnswersDoNotWaitForALook(t *testing.T) {
	t.Parallel()
	m := newMute(t, answerDue)
	goOn := make(chan struct{})
	m.writer = newStreamWriter(m.replies, streamOptions{
		ShareFrom: 1, Timeout: answerDue, HasCapacity: yesAlways, Sound: func() bool {
			m.looks <- struct{}{}
			<-goOn
			return true
		},
	})
	first, failed := m.write(t.Context(), "log.1")
	if err := <-failed; err == nil {
		t.Error("a batch without an answer is stored")
	}
	second, failed := m.write(t.Context(), "log.2")
	m.answer(t, second, yes)
	<-m.looks
	if err := <-failed; err != nil {
		t.Error(err)
	}
	third, failed := m.write(t.Context(), "log.3")
	m.answer(t, third, yes)
	if err := <-failed; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, failed = m.write(ctx, "log.4")
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was given up: %v", err)
	}
	if m.writer.synced(first.Header) {
		t.Error("a batch is synced before the server has reported that it has met no error")
	}
	close(goOn)
	m.awaitSynced(t, first.Header)
}

// TestAQuestionWithoutAnAnswerIsGivenUp proves that an unanswered question does not fill the
// window.
func TestAQuestionWithoutAnAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	m := newMute(t, answerDue)
	m.writer = newStreamWriter(m.replies, streamOptions{Window: 1, ShareFrom: 1, Timeout: 50 * time.Millisecond, HasCapacity: yesAlways, Sound: yesAlways})
	first, failed := m.write(t.Context(), "log.1")
	if err := <-failed; !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("a batch without an answer: %v", err)
	}
	if m.writer.synced(first.Header) {
		t.Error("a batch without an answer is synced")
	}
	<-m.got // the question
	stored := make(chan error, 1)
	go func() {
		_, err := m.writer.write(t.Context(), message("log.large", 0, string(make([]byte, 200<<10))), Jobs, nil)
		stored <- err
	}()
	select {
	case large := <-m.got:
		m.answer(t, large, yes)
	case <-time.After(3 * time.Minute):
		t.Fatal("what goes alone waits for the answer to a question")
	}
	if err := <-stored; err != nil {
		t.Error(err)
	}
}

// TestALateAnswerResolvesABatch proves that an answer after the timeout resolves its batch.
func TestALateAnswerResolvesABatch(t *testing.T) {
	t.Parallel()
	m := newMute(t, answerDue)
	m.broken.Store(true)
	first, failed := m.write(t.Context(), "log.1")
	if err := <-failed; err == nil {
		t.Error("a batch without an answer is stored")
	}
	if m.writer.synced(first.Header) {
		t.Error("a batch without an answer is synced")
	}
	m.answer(t, first, yes)
	second, failed := m.write(t.Context(), "log.2")
	for second.Subject != "log.2" { // the question came first
		second = <-m.got
	}
	m.answer(t, second, yes)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !m.writer.synced(first.Header) {
		t.Error("a batch whose answer came late is not synced")
	}
}

// TestABatchOfALostConnectionIsNotSynced proves that answers on the next connection resolve a batch
// only if they belong to writes sent after a message of the batch was read.
func TestABatchOfALostConnectionIsNotSynced(t *testing.T) {
	t.Parallel()
	m := newMute(t, time.Minute)
	first, failed := m.write(t.Context(), "log.1")
	next := make(chan struct{})
	m.nc.SetReconnectHandler(func(*nats.Conn) {
		m.replies.lost()
		close(next)
	})
	if err := m.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-next
	if err := <-failed; !errors.Is(err, nats.ErrDisconnected) || errors.Is(err, errNotSent) {
		t.Errorf("a batch whose connection was lost: %v", err)
	}
	for i := range 10 {
		later, failed := m.write(t.Context(), fmt.Sprintf("log.later.%d", i))
		m.answer(t, later, yes)
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	if len(m.looks) > 0 || m.writer.synced(first.Header) {
		t.Error("a batch that the server may not have seen is synced")
	}
	m.awaitSynced(t, first.Header)
}

// TestWhatWasGivenUpMakesNoBatch proves that writes abandoned while they waited are not sent.
func TestWhatWasGivenUpMakesNoBatch(t *testing.T) {
	t.Parallel()
	m := newMute(t, time.Minute)
	first, stored := m.write(t.Context(), "log.1")
	cause := errors.New("no answer")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := m.writer.write(ctx, nats.NewMsg("log.2"), Jobs, nil); !errors.Is(err, errNotSent) || errors.Is(err, cause) {
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

// TestOneConflictDoesNotSyncTheOthersOneByOne proves that the halves of a refused batch without the
// conflict are sent as batches.
func TestOneConflictDoesNotSyncTheOthersOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	taken, err := w.writer.write(t.Context(), message("log.taken", 0, "first"), Jobs, nil)
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

// TestInlineEventsAreNotCrowdedOut proves that large events of jobs do not starve inline events.
func TestInlineEventsAreNotCrowdedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, streamOptions{ShareFrom: testShareFrom})
	stored := make(chan struct{})
	var group sync.WaitGroup
	body := string(make([]byte, 20<<10))
	for i := range 200 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stored:
					return
				default:
				}
				if _, err := w.writer.write(t.Context(), message(fmt.Sprintf("log.%d.%d", i, n), 0, body), Jobs, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 {
		if _, err := w.writer.write(t.Context(), message(fmt.Sprintf("log.inline.%d", i), 0, body), Inline, nil); err != nil {
			t.Error(err)
		}
	}
	close(stored)
	group.Wait()
}

// halved is a mute server that has refused a batch. The first half is in flight again, with last as
// its last message, and the second half waits. ends receives each result, and giveUp abandons all
// writes.
type halved struct {
	mute
	last   *nats.Msg
	second []string // subjects of the waiting half
	ends   chan end
	giveUp func()
}

type end struct {
	subject string
	err     error
}

// seen is a context that reports when its Done channel is requested.
type seen struct {
	context.Context
	waits chan<- struct{}
}

func (s seen) Done() <-chan struct{} {
	s.waits <- struct{}{}
	return s.Context.Done()
}

const (
	aloneAtOnce = 8 // limit of writes in flight outside batches
	inHalves    = 8
	halvedAll   = aloneAtOnce + 2 + inHalves
)

func newHalved(t *testing.T) halved {
	t.Helper()
	h := halved{mute: newMute(t, time.Minute), ends: make(chan end, halvedAll)}
	h.writer = newStreamWriter(h.replies, streamOptions{ShareFrom: 2, Timeout: time.Minute, HasCapacity: yesAlways, Sound: yesAlways})
	ctx, cancel := context.WithCancel(t.Context())
	h.giveUp = cancel
	waits := make(chan struct{}, halvedAll)
	for i := range halvedAll {
		go func() {
			subject := fmt.Sprintf("log.%d", i)
			_, err := h.writer.write(seen{ctx, waits}, nats.NewMsg(subject), Jobs, nil)
			h.ends <- end{subject, err}
		}()
	}
	for range halvedAll {
		<-waits
	}
	for range aloneAtOnce {
		<-h.got
	}
	h.answer(t, h.batch(2)[1], `{"stream":"LOG","seq":7,"batch":"b","count":2}`)
	all := h.batch(inHalves)
	h.answer(t, all[inHalves-1], no)
	h.last = h.batch(inHalves / 2)[inHalves/2-1]
	for _, m := range all[inHalves/2:] {
		h.second = append(h.second, m.Subject)
	}
	for range 2 {
		if e := <-h.ends; e.err != nil {
			t.Error(e.err)
		}
	}
	return h
}

func (m mute) batch(n int) (all []*nats.Msg) {
	for range n {
		all = append(all, <-m.got)
	}
	return all
}

// unsent checks that every unanswered write ends, and that the waiting half was not sent.
func (h halved) unsent(t *testing.T) {
	t.Helper()
	for range aloneAtOnce + inHalves {
		e := <-h.ends
		if e.err == nil || slices.Contains(h.second, e.subject) != errors.Is(e.err, errNotSent) {
			t.Errorf("the write to %s: %v; those to %v were not sent", e.subject, e.err, h.second)
		}
	}
}

// TestHalvesThatCannotBeSentEnd proves that both halves fail if the connection is lost while the
// second one waits.
func TestHalvesThatCannotBeSentEnd(t *testing.T) {
	t.Parallel()
	h := newHalved(t)
	h.nc.Close()
	h.replies.lost()
	h.unsent(t)
}

// TestHalvesAreGivenUp proves that both halves end if their callers give up.
func TestHalvesAreGivenUp(t *testing.T) {
	t.Parallel()
	h := newHalved(t)
	h.giveUp()
	h.unsent(t)
}

// TestHalvesThatWereGivenUpLetNoBatchGo proves that an abandoned half does not count toward a
// batch.
func TestHalvesThatWereGivenUpLetNoBatchGo(t *testing.T) {
	t.Parallel()
	h := newHalved(t)
	h.giveUp()
	h.unsent(t)
	waits, failed := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		_, err := h.writer.write(seen{t.Context(), waits}, nats.NewMsg("log.few"), Jobs, nil)
		failed <- err
	}()
	<-waits
	h.answer(t, h.last, no)
	few := <-h.got
	if few.Subject != "log.few" || few.Header.Get("Nats-Batch-Id") != "" {
		t.Errorf("%s was sent with %v", few.Subject, few.Header)
	}
	h.answer(t, few, yes)
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

package inline_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/freeport"
)

// never is an interval that no test reaches.
const never = 24 * time.Hour

// running starts a chat whose first block has arrived.
func (x *bundle) running(up *scripted) *inline.Stream {
	x.t.Helper()
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(x.t.Context(), ask("sandbox-chat-a", streamed), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(s.Close)
	return s
}

// recorded starts a chat whose first event is confirmed.
func (x *bundle) recorded(up *scripted) *inline.Stream {
	x.t.Helper()
	s := x.running(up)
	x.waitRecorded(s)
	return s
}

func (x *bundle) waitRecorded(s *inline.Stream) {
	x.t.Helper()
	x.wait(func() bool {
		known, _ := x.runner.Known(s.JobID())
		return known > 0
	})
}

func (x *bundle) wait(until func() bool) {
	x.t.Helper()
	for !until() {
		if err := broker.Wait(x.t.Context(), time.Millisecond); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *bundle) check() {
	x.t.Helper()
	if err := x.runner.Check(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

// goesOn runs a chat that was not cut off to its end.
func (x *bundle) goesOn(s *inline.Stream, up *scripted) {
	x.t.Helper()
	go func() {
		for _, block := range []string{piece(1), stop} {
			select {
			case up.blocks <- block:
			case <-x.t.Context().Done(): // the chat was cut off
				return
			}
		}
		close(up.blocks)
	}()
	if saw, err := read(s); err != io.EOF || len(saw) != 3 {
		x.t.Errorf("the caller got %d blocks, then %v", len(saw), err)
	}
}

// cutOff checks that a chat was cancelled.
func cutOff(t testing.TB, s *inline.Stream, up *scripted) {
	t.Helper()
	saw, err := read(s)
	code(t, err, errcode.Cancelled)
	<-up.disconnected
	if len(saw) != 1 {
		t.Errorf("the caller got %d blocks", len(saw))
	}
}

// reads counts the requests to the log: checks of many jobs, and reads of one.
type reads struct {
	x     *bundle
	asked chan *nats.Msg // in order of arrival
}

func (x *bundle) countReads() reads {
	x.t.Helper()
	r := reads{x, make(chan *nats.Msg, 4096)}
	for _, api := range []string{"$JS.API.DIRECT.GET.", "$JS.API.STREAM.MSG.GET."} {
		if _, err := x.b.Conn().ChanSubscribe(api+x.b.Names().Tasks(), r.asked); err != nil {
			x.t.Fatal(err)
		}
	}
	return r
}

func (r reads) expect(step string, many, each int) {
	r.x.t.Helper()
	if gotMany, gotEach := r.drain(); gotMany != many || gotEach != each {
		r.x.t.Errorf("%s: %d looks and %d reads, want %d and %d", step, gotMany, gotEach, many, each)
	}
}

// drain takes the requests so far. A direct get that finds nothing is repeated at the leader; both
// count as one read.
func (r reads) drain() (many, each int) {
	r.x.t.Helper()
	if err := r.x.b.Conn().Flush(); err != nil {
		r.x.t.Fatal(err)
	}
	direct := map[string]int{}
	for len(r.asked) > 0 {
		m := <-r.asked
		what, leader := string(m.Data), strings.Contains(m.Subject, ".MSG.GET.")
		switch {
		case strings.Contains(what, `"multi_last"`):
			many++
		case leader && direct[what] > 0:
			direct[what]--
		case leader:
			each++
		default:
			direct[what]++
			each++
		}
	}
	return many, each
}

// TestALostNotificationOfACancelIsFound proves that the next check finds a cancel whose
// notification was lost.
func TestALostNotificationOfACancelIsFound(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWithoutNotifications(t, brokertest.Single(t), up.URL, 20*time.Millisecond, nil)
	s := x.recorded(up)
	x.end(s.JobID(), byItsCaller)
	cutOff(t, s, up)
	if _, end := x.history(s.JobID()); end.GetVersion() != 2 || end.GetError().GetMessage() != "by its caller" {
		t.Errorf("the terminal event is %v", end)
	}
}

func TestRunningChatsAreCheckedAfterAReconnect(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWithoutNotifications(t, brokertest.Single(t), up.URL, never, nil)
	s := x.recorded(up)
	x.end(s.JobID(), byItsCaller)
	if err := x.b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	cutOff(t, s, up)
}

// TestAChatThatWasErasedIsCutOff proves that a chat cancelled and erased between two checks is cut
// off, and that its end does not recreate the log.
func TestAChatThatWasErasedIsCutOff(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWithoutNotifications(t, brokertest.Single(t), up.URL, never, nil)
	s := x.recorded(up)
	entry := x.end(s.JobID(), byItsCaller)
	if err := x.tasks.Erase(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	x.check()
	if took := time.Since(begin); took < joblog.SecondLook {
		t.Errorf("it was looked for once more after %v", took)
	}
	cutOff(t, s, up)
	s.Close()
	if err := x.runner.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := x.tasks.Get(t.Context(), entry.Name()); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("the log has %v", err)
	}
}

// others stores messages that belong to no running chat.
func (x *bundle) others(n int) {
	x.t.Helper()
	for range n {
		if _, err := x.b.Publish(x.t.Context(), nats.NewMsg(x.b.Names().Done(subject.Chat, tenant, "completed", "other"))); err != nil {
			x.t.Fatal(err)
		}
	}
}

// TestANewLogCutsNoChatOff proves that a chat survives a recreated log, even one that extends past
// the chat's sequence, and is not checked again.
func TestANewLogCutsNoChatOff(t *testing.T) {
	t.Parallel()
	up, b := newScripted(t), brokertest.Single(t)
	x := setupSecondLook(t, b, up.URL, 100*time.Millisecond)
	s := x.recorded(up)
	known, _ := x.runner.Known(s.JobID())
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.others(10)
	if _, err := b.Delete(t.Context(), b.Names().Tasks(), known); err != nil {
		t.Fatal(err)
	}
	count := x.countReads()
	x.check()
	count.expect("the log is another one", 1, 2)
	x.check()
	count.expect("that is known", 0, 0)
	x.goesOn(s, up)
}

// startIn starts a server on the files of a directory.
func startIn(t testing.TB, dir string, port int) (stop func()) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	stop = sync.OnceFunc(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	t.Cleanup(stop)
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	return stop
}

// TestAnOlderLogCutsNoChatOff proves that a chat survives a log that lost its last events in a
// crash, whether or not another job now has the chat's sequence.
func TestAnOlderLogCutsNoChatOff(t *testing.T) {
	t.Parallel()
	for how, stored := range map[string]int{"shorter": 0, "written to": 10} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ports, err := freeport.Ports(1)
			if err != nil {
				t.Fatal(err)
			}
			dir, older := t.TempDir(), t.TempDir()
			stop := startIn(t, dir, ports[0])
			b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: "nats://127.0.0.1:" + strconv.Itoa(ports[0])})
			back := make(chan struct{}, 2)
			b.OnReconnect(func(context.Context) { back <- struct{}{} })
			stop()
			if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			stop = startIn(t, dir, ports[0])
			<-back
			up := newScripted(t)
			x := setupSecondLook(t, b, up.URL, 100*time.Millisecond)
			s := x.recorded(up)
			stop()
			startIn(t, older, ports[0])
			<-back
			x.others(stored)
			x.check()
			x.goesOn(s, up)
			s.Close()
			if err := x.runner.Close(t.Context()); err != nil { // while the server runs
				t.Error(err)
			}
		})
	}
}

// TestChecksAskForWhatIsRunning proves that one request checks all running chats, and that a chat
// with a new event is read once.
func TestChecksAskForWhatIsRunning(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // it never ends a reply
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+piece(0)+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(up.Close)
	x := setupWithoutNotifications(t, brokertest.Single(t), up.URL, never, nil)
	count := x.countReads()
	x.check()
	count.expect("no chat runs", 0, 0)

	var chats []*inline.Stream
	for range 3 {
		s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		x.waitRecorded(s)
		chats = append(chats, s)
	}
	x.check()
	count.expect("three run", 1, 0)

	x.end(chats[0].JobID(), func(c *genbusv1.Chat) (task.Event, error) {
		return task.FailedChat(c, time.Now(), 0, errcode.New(errcode.DeadlineExceeded, "too late").TaskError())
	})
	count.expect("the read before the end", 0, 1)
	x.check()
	count.expect("one was ended by another replica", 1, 1)
	x.check()
	count.expect("that is known", 1, 0)

	for _, s := range chats {
		if _, err := s.Next(); err != nil {
			t.Errorf("a chat was cut off: %v", err)
		}
		s.Close()
	}
	count.drain()
	x.check()
	if looks, _ := count.drain(); looks != 0 { // their ends may read the log
		t.Errorf("all have ended: %d looks", looks)
	}
}

func TestChatsWithoutEventsAreNotChecked(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWithoutNotifications(t, brokertest.Single(t), up.URL, never, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsOff })
	count := x.countReads()
	s := x.running(up)
	x.check()
	count.expect("no chat has events", 0, 0)
	x.goesOn(s, up)
}

// TestChatsThatTheLogDidNotTakeAreNotChecked proves that a chat whose first event a full log
// refused causes no requests.
func TestChatsThatTheLogDidNotTakeAreNotChecked(t *testing.T) {
	t.Parallel()
	up, b := newScripted(t), brokertest.Single(t)
	x := setupWithoutNotifications(t, b, up.URL, never, nil)
	x.changeLog(func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	x.others(1)
	s := x.running(up)
	x.wait(func() bool {
		_, unlogged := x.runner.Known(s.JobID())
		return unlogged
	})
	count := x.countReads()
	x.check()
	count.expect("the log is full", 0, 0)
	x.goesOn(s, up)
}

func (x *bundle) changeLog(change func(*jetstream.StreamConfig)) {
	x.t.Helper()
	x.change(x.b.Names().Tasks(), change)
}

func (x *bundle) change(name string, change func(*jetstream.StreamConfig)) {
	x.t.Helper()
	stream, err := x.b.Stream(x.t.Context(), name)
	if err != nil {
		x.t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	change(&c)
	if _, err := x.b.JetStream().UpdateStream(x.t.Context(), c); err != nil {
		x.t.Fatal(err)
	}
}

// TestAChatIsNotMissedBeforeItIsStored proves that a chat without a confirmed first event is not
// treated as erased, and that a later cancel is found.
func TestAChatIsNotMissedBeforeItIsStored(t *testing.T) {
	t.Parallel()
	up, b := newScripted(t), brokertest.Single(t)
	x := setupWithoutNotifications(t, b, up.URL, never, nil)
	x.changeLog(func(c *jetstream.StreamConfig) { c.Subjects = []string{b.Names().DonePattern()} })
	s := x.running(up)
	count := x.countReads()
	x.check()
	count.expect("it is under way", 1, 1)
	if known, unlogged := x.runner.Known(s.JobID()); known != 0 || unlogged {
		t.Fatalf("its event is stored at %d, or given up: %t", known, unlogged)
	}
	x.changeLog(func(c *jetstream.StreamConfig) {
		c.Subjects = []string{b.Names().TaskPattern(), b.Names().DonePattern()}
	})
	x.waitRecorded(s)
	x.end(s.JobID(), byItsCaller)
	x.check()
	cutOff(t, s, up)
}

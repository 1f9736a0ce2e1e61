package inline_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// behind is a runner before the sandbox whose chats wait while the events of some are not stored.
func behind(t testing.TB, b *broker.Broker, backlog int, most time.Duration, mode string, changes ...func(*config.Config)) *bundle {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return setupWith(t, b, s.URL(), func(o inline.Options) inline.Options {
		return o.CheckedEvery(never).WithBacklog(backlog, most)
	}, func(c *config.Config) {
		c.Chat.InlineEvents = mode
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 64
		}
		for _, change := range changes {
			change(c)
		}
	})
}

// stall has the log take no events, until the function that it returns is called.
func (x *bundle) stall() (goOn func()) {
	x.t.Helper()
	x.changeLog(func(c *jetstream.StreamConfig) { c.Subjects = []string{"unused"} })
	return sync.OnceFunc(func() {
		x.changeLog(func(c *jetstream.StreamConfig) {
			c.Subjects = []string{x.b.Names().TaskPattern(), x.b.Names().DonePattern()}
		})
	})
}

// stored checks that the log has the end of a chat, and the feed its copy, in this order.
func (x *bundle) stored(id string) {
	x.t.Helper()
	e, err := x.tasks.Get(x.t.Context(), subject.TaskName{Kind: subject.Chat, Tenant: tenant, ID: id})
	if err != nil || !e.Terminal() || e.Version() != 2 {
		x.t.Errorf("%s is %v, version %d: %v", id, e.Job.GetStatus(), e.Version(), err)
		return
	}
	first, err := x.b.Next(x.t.Context(), x.b.Names().Tasks(), x.b.Names().Task(subject.Chat, tenant, id), 1)
	if err != nil || first.Seq >= e.Seq {
		x.t.Errorf("%s began at %d and ended at %d: %v", id, first.Seq, e.Seq, err)
	}
	feedCopy, err := x.b.Last(x.t.Context(), x.b.Names().Tasks(), x.b.Names().Done(subject.Chat, tenant, "completed", id))
	if err != nil || feedCopy.Seq <= e.Seq {
		x.t.Errorf("%s ended at %d, and its feed copy is at %d: %v", id, e.Seq, feedCopy.Seq, err)
	}
}

// TestNoEventIsLostToABurst: 64 callers are faster than the broker, and wait for it.
func TestNoEventIsLostToABurst(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const callers, each = 64, 4
		x := behind(t, open(t), 2, time.Minute, config.InlineEventsOn)
		ids := make(chan string, callers*each)
		goOn := x.stall()
		defer goOn()
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range each {
					reply, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
					if err != nil {
						t.Error(err)
						return
					}
					ids <- reply.JobID
				}
			})
		}
		x.wait(func() bool { _, waiting := x.runner.Backlog(); return waiting == callers })
		goOn()
		group.Wait()
		close(ids)
		if err := x.runner.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := x.counter("genbus_inline_events_dropped_total"); n != 0 || len(ids) != callers*each {
			t.Errorf("%v events dropped of %d chats", n, len(ids))
		}
		for id := range ids {
			x.stored(id)
		}
	})
}

// TestEventsAreNotWaitedForLong where the broker stores none: a chat waits once, and those after
// it do not. Their events are given up, and all are answered.
func TestEventsAreNotWaitedForLong(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Millisecond, config.InlineEventsOn)
	goOn := x.stall()
	defer goOn()
	first, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
	if err != nil {
		t.Fatal(err)
	}
	x.wait(func() bool { ended, _ := x.runner.Backlog(); return ended == 1 })
	for range 3 {
		if _, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", "")); err != nil {
			t.Fatal(err)
		}
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 3*2 {
		t.Errorf("%v events dropped of three chats", n)
	}
	goOn()
	if err := x.runner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.stored(first.JobID)
}

// TestTheEndIsGivenUpOnce: the first event is still not stored, and is tried again, within the
// time that the end has.
func TestTheEndIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second
	up := newScripted(t)
	x := setupWith(t, brokertest.Single(t), up.URL, func(o inline.Options) inline.Options {
		return o.CheckedEvery(never).StoresFor(most)
	}, nil)
	release := x.runner.FillWrites(t.Context())
	defer release()
	s, err := x.startOf(up)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	close(up.blocks)
	if _, err := read(s); err != io.EOF {
		t.Fatal(err)
	}
	ended := time.Now()
	x.wait(func() bool { ended, _ := x.runner.Backlog(); return ended == 0 })
	if took := time.Since(ended); took >= 2*most {
		t.Errorf("given up %s after the end, which has %s", took, most)
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 2 {
		t.Errorf("%v events dropped", n)
	}
}

// TestChatsThatWaitForTheirEventsHoldNoPlace of their route or of their tenant.
func TestChatsThatWaitForTheirEventsHoldNoPlace(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Minute, config.InlineEventsOn, func(c *config.Config) {
		c.Limits.Tenant.MaxJobs = 1
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 1
		}
	})
	goOn := x.stall()
	defer goOn()
	if _, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", "")); err != nil {
		t.Fatal(err)
	}
	x.wait(func() bool { ended, _ := x.runner.Backlog(); return ended == 1 })
	const callers = 3
	errs := make(chan error, callers)
	for range callers {
		go func() {
			_, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
			errs <- err
		}()
	}
	x.wait(func() bool { _, waiting := x.runner.Backlog(); return waiting+len(errs) == callers })
	if n := len(errs); n != 0 {
		t.Fatalf("%d were refused: %v", n, <-errs)
	}
	goOn()
	for range callers { // they compete for the places from then on
		if err := <-errs; err != nil && errcode.CodeOf(err) != errcode.QueueFull && errcode.CodeOf(err) != errcode.TenantFull {
			t.Error(err)
		}
	}
}

// TestRequiredEventsAreStoredFirst: an answer is whole when its events are stored.
func TestRequiredEventsAreStoredFirst(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := behind(t, open(t), 1, time.Nanosecond, config.InlineEventsRequired)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				reply, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
				if err != nil {
					t.Error(err)
					return
				}
				x.stored(reply.JobID)
				s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-fast", streamed))
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if _, err := read(s); err != io.EOF {
					t.Error(err)
				}
				x.stored(s.JobID())
			})
		}
		group.Wait()
		if n := x.counter("genbus_inline_events_dropped_total"); n != 0 {
			t.Errorf("%v events dropped", n)
		}
	})
}

// TestRequiredEventsAreWaitedFor: the log takes no events when the upstream has ended.
func TestRequiredEventsAreWaitedFor(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if known, _ := x.runner.Known(s.JobID()); known == 0 {
		t.Error("the upstream was called before the first event was stored")
	}
	goOn := x.stall()
	defer goOn()
	told := make(chan struct{})
	s.OnWait(func() { close(told) })
	ended := make(chan error, 1)
	go func() {
		_, err := read(s)
		ended <- err
	}()
	up.blocks <- stop
	close(up.blocks)
	x.wait(func() bool { ended, _ := x.runner.Backlog(); return ended == 1 })
	<-told
	select {
	case err := <-ended:
		t.Fatalf("the caller was told of the end before it was stored: %v", err)
	default:
	}
	goOn()
	if err := <-ended; err != io.EOF {
		t.Fatal(err)
	}
	x.stored(s.JobID())
}

// TestWhatIsHeldBackIsSentBeforeABlockWaits: chunks are not stored, and a block finds no room.
func TestWhatIsHeldBackIsSentBeforeABlockWaits(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
	names := x.b.Names()
	x.change(names.Chunks(), func(c *jetstream.StreamConfig) { c.Subjects, c.RePublish = []string{"unused"}, nil })
	block := `{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 200<<10) + `"}}]}`
	const fit = 5 // in 1 MiB
	go func() {
		for range fit + 1 {
			up.blocks <- block
		}
		up.blocks <- stop
		close(up.blocks)
	}()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var given []uint64
	s.OnWait(sync.OnceFunc(func() {
		if len(given) != fit {
			t.Errorf("the first wait is after %d blocks", len(given))
		}
		x.change(names.Chunks(), func(c *jetstream.StreamConfig) { c.Subjects = []string{names.ChunkPattern()} })
	}))
	for {
		b, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, b.Index)
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 0 {
		t.Errorf("%v events dropped", n)
	}
	x.stored(s.JobID())
}

// TestRequiredEventsThatAreNotStored: a chat that the log does not take is refused, before its
// upstream is called, and one whose end it does not take has no answer.
func TestRequiredEventsThatAreNotStored(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
	go func() { up.blocks <- piece(0) }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	x.changeLog(func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })
	_, err = x.runner.Complete(t.Context(), ask("sandbox-chat-a", ""))
	code(t, err, errcode.StorageFull)
	go func() {
		up.blocks <- stop
		close(up.blocks)
	}()
	_, err = read(s)
	code(t, err, errcode.EventsNotStored)
	if n := x.counter("genbus_upstream_requests_total"); n != 1 {
		t.Errorf("%v requests went upstream", n)
	}
}

// TestTheLastChunksHaveAllTheTimeOfTheEnd where they are required.
func TestTheLastChunksHaveAllTheTimeOfTheEnd(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setup(t, brokertest.Single(t), up.URL, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
	names := x.b.Names()
	x.change(names.Chunks(), func(c *jetstream.StreamConfig) { c.Subjects, c.RePublish = []string{"unused"}, nil })
	s, err := x.startOf(up)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	close(up.blocks)
	stored := make(chan struct{})
	defer func() { <-stored }()
	time.AfterFunc(6*time.Second, func() {
		defer close(stored)
		x.change(names.Chunks(), func(c *jetstream.StreamConfig) { c.Subjects = []string{names.ChunkPattern()} })
	})
	if _, err := read(s); err != io.EOF {
		t.Error(err)
	}
	x.stored(s.JobID())
}

// TestRequiredEventsAreNotWaitedForEndlessly: others have all places to store events. They are
// stored when there is a place.
func TestRequiredEventsAreNotWaitedForEndlessly(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWith(t, brokertest.Single(t), up.URL, func(o inline.Options) inline.Options {
		return o.CheckedEvery(never).WaitsAtMost(time.Second)
	}, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
	s, err := x.startOf(up)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	release := sync.OnceFunc(x.runner.FillWrites(t.Context()))
	defer release()
	_, err = x.runner.Complete(t.Context(), ask("sandbox-chat-a", ""))
	code(t, err, errcode.BrokerUnavailable)
	close(up.blocks)
	_, err = read(s)
	f := faultOf(t, err, errcode.EventsNotStored)
	if f.RetryAfter != 0 || f.Meaning().Retry {
		t.Errorf("a chat that its upstream has answered is to be sent again: %v", f)
	}
	s.Close()
	release()
	if err := x.runner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.stored(s.JobID())
}

// TestRequiredEventsAreGivenUpWithoutRoom for what they hold, when their caller waits no longer:
// its time is over, or it leaves.
func TestRequiredEventsAreGivenUpWithoutRoom(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"time over": time.Second, "caller gone": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newScripted(t)
			x := setupWith(t, brokertest.Single(t), up.URL, func(o inline.Options) inline.Options {
				return o.CheckedEvery(never).WaitsAtMost(wait).StoresFor(time.Hour)
			}, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			go func() { up.blocks <- piece(0) }()
			s, err := x.started(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			release := x.runner.FillWrites(t.Context())
			defer release()
			before := x.counter("genbus_inline_events_dropped_total")
			if !x.runner.FillBudget() {
				t.Fatal("the budget is in use")
			}
			go func() {
				up.blocks <- stop
				close(up.blocks)
			}()
			ended := make(chan error, 1)
			go func() {
				_, err := read(s)
				ended <- err
			}()
			want := errcode.EventsNotStored
			if wait == time.Hour {
				x.wait(func() bool { return x.runner.Storing() == 1 })
				want = errcode.CallerGone
				leave()
			}
			code(t, <-ended, want)
			x.wait(func() bool { ended, _ := x.runner.Backlog(); return ended == 0 })
			if n := x.counter("genbus_inline_events_dropped_total") - before; n != 1 {
				t.Errorf("%v events dropped", n)
			}
		})
	}
}

// TestRequiredBlocksAreWithinTheBudget from when their caller has left: the places of the chat are
// given back then, and its blocks are stored for 10 s more.
func TestRequiredBlocksAreWithinTheBudget(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]func(context.CancelFunc, *inline.Stream){
		"context": func(cancel context.CancelFunc, s *inline.Stream) { cancel(); _, _ = s.Next() },
		"close":   func(_ context.CancelFunc, s *inline.Stream) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, server := newScripted(t), brokertest.Alone(t)
			b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: server.ClientURL()})
			x := setup(t, b, up.URL, func(c *config.Config) { c.Chat.InlineEvents = config.InlineEventsRequired })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { up.blocks <- piece(0) }()
			s, err := x.runner.Stream(ctx, ask("sandbox-chat-a", streamed))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			server.Shutdown()
			server.WaitForShutdown()
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			leaves(cancel, s)
			if x.runner.FillBudget() {
				t.Error("a block that is being stored is in no budget")
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if err := x.runner.Close(ended); err == nil {
				t.Error("the events were stored without a broker")
			}
			if !x.runner.FillBudget() {
				t.Error("the budget was not given back")
			}
			_ = b.Close() // the parts that are closed next would wait for their answers
		})
	}
}

func (x *bundle) startOf(up *scripted) (*inline.Stream, error) {
	go func() { up.blocks <- stop }()
	return x.started(x.t.Context())
}

// started starts a chat, and again where its first event was not stored in time: a test may
// have made that time short. The upstream was not called then.
func (x *bundle) started(ctx context.Context) (s *inline.Stream, err error) {
	for end := time.Now().Add(brokertest.Patience); time.Now().Before(end); {
		if s, err = x.runner.Stream(ctx, ask("sandbox-chat-a", streamed)); errcode.CodeOf(err) != errcode.BrokerUnavailable || broker.Wait(ctx, 10*time.Millisecond) != nil {
			break
		}
	}
	return s, err
}

// TestRequiredEventsKeepNoCallerWhoLeaves, nor the places of the chat.
func TestRequiredEventsKeepNoCallerWhoLeaves(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Minute, config.InlineEventsRequired, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 1
		}
	})
	release := x.runner.FillWrites(t.Context())
	defer release()
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := x.runner.Complete(ctx, ask("sandbox-chat-fast", ""))
			ended <- err
		}()
		x.wait(func() bool { return x.runner.Storing() == 1 })
		leave()
		code(t, <-ended, errcode.CallerGone)
	}
}

// TestChatsThatWaitAreRefusedByAClose at once.
func TestChatsThatWaitAreRefusedByAClose(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{config.InlineEventsOn, config.InlineEventsRequired} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			x := behind(t, brokertest.Single(t), 1, time.Hour, mode)
			release := x.runner.Full()
			defer release()
			ended := make(chan error, 1)
			go func() {
				_, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
				ended <- err
			}()
			x.wait(func() bool { _, waiting := x.runner.Backlog(); return waiting == 1 })
			if err := x.runner.Close(t.Context()); err != nil {
				t.Error(err)
			}
			code(t, <-ended, errcode.ShuttingDown)
		})
	}
}

// TestRequiredEventsWithoutABroker: nothing is called that could not be stored.
func TestRequiredEventsWithoutABroker(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
	x := behind(t, b, 1, time.Minute, config.InlineEventsRequired)
	s.Shutdown()
	s.WaitForShutdown()
	_, err := x.runner.Complete(t.Context(), ask("sandbox-chat-fast", ""))
	f := faultOf(t, err, errcode.BrokerUnavailable)
	if f.RetryAfter == 0 {
		t.Errorf("it does not say when to come again: %v", f)
	}
	if _, err := x.tasks.Get(t.Context(), subject.TaskName{Kind: subject.Chat, Tenant: tenant, ID: "chat_x"}); errors.Is(err, joblog.ErrNotFound) {
		t.Error("the broker is there")
	}
	_ = b.Close() // the parts that are closed next would wait for their answers
}

package inline_test

import (
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
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// behind returns a runner in front of the sandbox, with a limited event backlog.
func behind(t testing.TB, b *broker.Broker, backlog int, most time.Duration, changes ...func(*config.Config)) *bundle {
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
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 64
		}
		for _, change := range changes {
			change(c)
		}
	})
}

func (x *bundle) stall() (goOn func()) {
	x.t.Helper()
	x.changeLog(func(c *jetstream.StreamConfig) { c.Subjects = []string{"unused"} })
	return sync.OnceFunc(func() {
		x.changeLog(func(c *jetstream.StreamConfig) {
			c.Subjects = []string{x.b.Names().TaskPattern(), x.b.Names().DonePattern()}
		})
	})
}

// stored checks that the log has a chat's first event, end and feed copy, in this order.
func (x *bundle) stored(id string) {
	x.t.Helper()
	e, err := x.tasks.Get(x.t.Context(), subject.JobName{Kind: subject.Chat, Tenant: tenant, ID: id})
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

// TestNoEventIsLostToABurst proves that 64 callers that outpace the broker wait and lose no event.
func TestNoEventIsLostToABurst(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const callers, each = 64, 4
		x := behind(t, open(t), 2, time.Minute)
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

// TestEventsAreNotWaitedForLong proves that, if the broker stores nothing, all chats are served
// without a long wait and their events are dropped.
func TestEventsAreNotWaitedForLong(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Millisecond)
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

// TestTheEndIsGivenUpOnce proves that a retry of the first event at the end shares the time limit
// of the end.
func TestTheEndIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	const most = 5 * time.Second
	up := newScripted(t)
	x := setupWith(t, brokertest.Single(t), up.URL, func(o inline.Options) inline.Options {
		return o.CheckedEvery(never).StoresFor(most)
	}, nil)
	release := x.runner.FillWrites(t.Context())
	defer release()
	go func() { up.blocks <- stop }()
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
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

// TestChatsThatWaitForTheirEventsHoldNoPlace proves that chats waiting for event capacity hold no
// slot of their route or tenant.
func TestChatsThatWaitForTheirEventsHoldNoPlace(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Minute, func(c *config.Config) {
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
	for range callers { // now they compete for the slots
		if err := <-errs; err != nil && errcode.CodeOf(err) != errcode.QueueFull && errcode.CodeOf(err) != errcode.TenantFull {
			t.Error(err)
		}
	}
}

// TestWhatIsHeldBackIsSentBeforeABlockWaits proves that OnWait runs before the first block that has
// to wait for capacity.
func TestWhatIsHeldBackIsSentBeforeABlockWaits(t *testing.T) {
	t.Parallel()
	up := newScripted(t)
	x := setupWith(t, brokertest.Single(t), up.URL, func(o inline.Options) inline.Options { return o.WithBacklog(1, time.Minute) }, nil)
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
	s, err := x.runner.Stream(t.Context(), ask("sandbox-chat-a", streamed), nil)
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
	s.Close()
	if err := x.runner.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := x.counter("genbus_inline_events_dropped_total"); n != 0 {
		t.Errorf("%v events dropped", n)
	}
	x.stored(s.JobID())
}

func TestChatsThatWaitAreRefusedByAClose(t *testing.T) {
	t.Parallel()
	x := behind(t, brokertest.Single(t), 1, time.Hour)
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
}

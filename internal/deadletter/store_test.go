package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

func deadLettersOf(t *testing.T, b *broker.Broker) (out []*genbusv1.DeadLetter) {
	t.Helper()
	for seq := uint64(1); ; {
		m, err := b.Next(t.Context(), b.Names().Dead(), b.Names().DeadPattern(), seq)
		if err != nil {
			return out
		}
		l := &genbusv1.DeadLetter{}
		if err := proto.Unmarshal(m.Data, l); err != nil {
			t.Fatal(err)
		}
		out, seq = append(out, l), m.Seq+1
	}
}

func deadLetter(code string, accepted time.Time) *genbusv1.DeadLetter {
	return &genbusv1.DeadLetter{
		Error: &genbusv1.TaskError{Code: code}, Id: "video_x", Kind: "video", Tenant: "acme", Data: []byte("{}"),
		Work: &genbusv1.WorkItem{Id: "video_x", AcceptedAt: timestamppb.New(accepted)},
	}
}

// TestADeadLetterIsStoredOnce proves that a repeat is stored once even after the stream's
// deduplication window, and that other attempts, codes and later jobs with the ID are stored
// separately.
func TestADeadLetterIsStoredOnce(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		s, err := b.JetStream().Stream(ctx, b.Names().Dead())
		if err != nil {
			t.Fatal(err)
		}
		forgetful := s.CachedInfo().Config
		forgetful.Duplicates = 100 * time.Millisecond
		if _, err := b.JetStream().UpdateStream(ctx, forgetful); err != nil {
			t.Fatal(err)
		}
		d := deadletter.Store{Broker: b, Bodies: broker.NewBodies(b), Metrics: telemetry.NewMetrics("test")}
		accepted := time.Now()
		put := func(code, occasion string, accepted time.Time, want int) {
			t.Helper()
			if err := d.Put(ctx, deadLetter(code, accepted), "video_x", occasion); err != nil {
				t.Fatal(err)
			}
			if n := len(deadLettersOf(t, b)); n != want {
				t.Errorf("%s, occasion %s: %d dead letters, want %d", code, occasion, n, want)
			}
		}
		put("poisoned", "1", accepted, 1)
		if err := broker.Wait(ctx, 300*time.Millisecond); err != nil { // the deduplication window
			t.Fatal(err)
		}
		put("poisoned", "1", accepted, 1)
		put("poisoned", "2", accepted, 2)
		put("orphaned_submission", "2", accepted, 3)
		put("orphaned_submission", "2", accepted.Add(time.Second), 4)
	})
}

// TestADeadLetterThatCannotBeStoredLeavesNoBody proves that failed writes leave no bodies, and that
// the final write has one.
func TestADeadLetterThatCannotBeStoredLeavesNoBody(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	stream, err := b.JetStream().Stream(ctx, b.Names().Dead())
	if err != nil {
		t.Fatal(err)
	}
	holds := func(n int64) {
		t.Helper()
		c := stream.CachedInfo().Config
		c.MaxMsgs = n
		if _, err := b.JetStream().UpdateStream(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	d := deadletter.Store{Broker: b, Bodies: broker.NewBodies(b), Metrics: telemetry.NewMetrics("test")}
	if err := d.Put(ctx, deadLetter("poisoned", time.Now()), "video_x", "first"); err != nil {
		t.Fatal(err)
	}
	holds(1)
	large := func() *genbusv1.DeadLetter {
		l := deadLetter("poisoned", time.Now())
		l.Data = bytes.Repeat([]byte("x"), 2*publisher.ClaimCheck)
		return l
	}
	again := large()
	for _, l := range []*genbusv1.DeadLetter{large(), large(), again, again} {
		if err := d.Put(ctx, l, "video_x", "second"); !errors.Is(err, broker.ErrFull) {
			t.Fatalf("the dead letter: %v", err)
		}
	}
	objects, err := d.Bodies.Of(ctx, "acme", "dead")
	if err != nil || len(objects) != 0 {
		t.Errorf("the object store has %v, %v", objects, err)
	}
	holds(2)
	if err := d.Put(ctx, again, "video_x", "second"); err != nil {
		t.Fatal(err)
	}
	letters := deadLettersOf(t, b)
	if data, err := d.Bodies.Get(ctx, publisher.BodyOf(letters[1].GetDataRef())); err != nil || len(data) != 2*publisher.ClaimCheck {
		t.Errorf("the dead letter's body has %d bytes, %v", len(data), err)
	}
}

// TestADeadLetterTakesItsBodyWithIt proves that a dead letter gets a copy of a stored body, and is
// stored even if that body is gone.
func TestADeadLetterTakesItsBodyWithIt(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	d := deadletter.Store{Broker: b, Bodies: bodies, Metrics: telemetry.NewMetrics("test")}
	data := bytes.Repeat([]byte("x"), 1<<20)
	input, err := bodies.Put(ctx, "acme", "video_x-abc", data)
	if err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(*genbusv1.DeadLetter){
		func(l *genbusv1.DeadLetter) { l.Data, l.DataRef = nil, publisher.BlobRef(input) },
		func(l *genbusv1.DeadLetter) { l.Data = data },
	} {
		l := deadLetter("poisoned", time.Now())
		change(l)
		if err := d.Put(ctx, l, "video_x", string(rune('1'+i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := bodies.Delete(ctx, input); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range deadLettersOf(t, b) {
		names[l.GetDataRef().GetName()] = true
		if got, err := bodies.Get(ctx, publisher.BodyOf(l.GetDataRef())); err != nil || !bytes.Equal(got, data) || len(l.GetData()) != 0 {
			t.Errorf("%s has %d bytes, %v", l.GetDataRef().GetName(), len(got), err)
		}
	}
	if len(names) != 2 {
		t.Errorf("two dead letters share a body: %v", names)
	}
	gone := deadLetter("poisoned", time.Now())
	gone.Data, gone.DataRef = nil, publisher.BlobRef(input)
	if err := d.Put(ctx, gone, "video_x", "3"); err != nil || len(deadLettersOf(t, b)) != 3 {
		t.Errorf("a dead letter whose body is gone: %v", err)
	}
}

// TestTwoWritersOfADeadLetter proves that concurrent writers of one dead letter keep the body that
// it refers to.
func TestTwoWritersOfADeadLetter(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, accepted := open(t), time.Now()
		bodies := broker.NewBodies(b)
		var writers sync.WaitGroup
		for _, text := range []string{"a", "b"} {
			d, l := deadletter.Store{Broker: open(t), Bodies: bodies, Metrics: telemetry.NewMetrics("test")}, deadLetter("poisoned", accepted)
			l.Data = bytes.Repeat([]byte(text), 1<<20)
			writers.Go(func() {
				err := d.Put(t.Context(), l, "video_x", "1")
				// A busy cluster may consider a node unavailable for a moment.
				for (errors.Is(err, broker.ErrInFlight) || broker.Unavailable(err)) && broker.Wait(t.Context(), 10*time.Millisecond) == nil {
					err = d.Put(t.Context(), l, "video_x", "1")
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		writers.Wait()
		for _, l := range deadLettersOf(t, b) {
			if _, err := bodies.Get(t.Context(), publisher.BodyOf(l.GetDataRef())); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestADeadLetterNamesTheTraceOfItsRequest proves that a dead letter is in the trace of its
// request, whatever the writer's trace.
func TestADeadLetterNamesTheTraceOfItsRequest(t *testing.T) {
	t.Parallel()
	const accepted, other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b := brokertest.Single(t)
	d := deadletter.Store{Broker: b, Bodies: broker.NewBodies(b), Metrics: telemetry.NewMetrics("test")}
	for occasion, ctx := range map[string]context.Context{
		"a": t.Context(), "b": telemetry.Extract(t.Context(), map[string]string{"traceparent": other}),
	} {
		l := deadLetter("upstream_removed", time.Now())
		l.Work.Trace = map[string]string{"traceparent": accepted}
		if err := d.Put(ctx, l, "video_x", occasion); err != nil {
			t.Fatal(err)
		}
		m, err := b.Last(t.Context(), b.Names().Dead(), b.Names().DeadPattern())
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get("traceparent"); got != accepted {
			t.Errorf("%s: traceparent %q, want %s", occasion, got, accepted)
		}
	}
}

package bulk_test

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
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/bulk"
	"github.com/genbus/genbus/internal/errcode"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

const patience = brokertest.Patience

// items are what the operations of a test are about: each can be changed once.
type items struct {
	page, n int

	mu      sync.Mutex
	changed map[uint64]int
	// before is called before a step.
	before func(seq uint64) error
}

func newItems(n, page int) *items {
	return &items{n: n, page: page, changed: map[uint64]int{}, before: func(uint64) error { return nil }}
}

// steps are those of a list: the letters 1 to n.
func (x *items) steps(_ context.Context, _ *genbusv1.Operation, cursor string) (steps []bulk.Step, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil {
			return nil, "", err
		}
	}
	to := min(from+x.page, x.n)
	for i := from; i < to; i++ {
		steps = append(steps, bulk.Step{Letter: uint64(i + 1), Do: func(context.Context) (bool, error) { return x.change(uint64(i + 1)) }})
	}
	if to < x.n {
		next = strconv.Itoa(to)
	}
	return steps, next, nil
}

func (x *items) change(seq uint64) (bool, error) {
	if err := x.before(seq); err != nil {
		return false, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changed[seq] > 0 {
		return false, nil
	}
	x.changed[seq]++
	return true, nil
}

// count is how many were changed.
func (x *items) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.changed)
}

// replica is a Runner of a replica, which is not started.
func replica(t *testing.T, b *broker.Broker, self string, steps bulk.Steps) *bulk.Runner {
	t.Helper()
	r := bulk.New(t.Context(), bulk.Options{Broker: b, Steps: steps, Self: self, Logger: brokertest.Logger(t)})
	r.Hurry()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		r.Close(ctx)
	})
	return r
}

func start(t *testing.T, r *bulk.Runner) {
	t.Helper()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
}

func operation(id string) *genbusv1.Operation {
	return &genbusv1.Operation{
		Id: id, Operator: "ann", AsOf: timestamppb.Now(), Total: 1, TotalExact: true,
		Spec: &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{Filter: &genbusv1.DeadLetterFilter{Code: id}}}},
	}
}

func begin(t *testing.T, r *bulk.Runner, id string) *genbusv1.Operation {
	t.Helper()
	op, err := r.Begin(t.Context(), operation(id))
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// until waits until an operation is as wanted, which has no event.
func until(t *testing.T, r *bulk.Runner, id string, is func(*genbusv1.OperationProgress) bool) *genbusv1.OperationProgress {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		op, err := r.Get(ctx, id)
		if err == nil && is(op.GetProgress()) {
			return op.GetProgress()
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("operation %s is %v, %v", id, op, err)
		}
	}
}

func ended(p *genbusv1.OperationProgress) bool {
	return p.GetState() != genbusv1.OperationProgress_STATE_RUNNING && p.GetState() != genbusv1.OperationProgress_STATE_STOPPING
}

// TestAnOperationIsDone to its end, with a count of what became of each.
func TestAnOperationIsDone(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(250, 100)
		var mu sync.Mutex
		tried := map[uint64]int{}
		x.before = func(seq uint64) error {
			mu.Lock()
			defer mu.Unlock()
			tried[seq]++
			switch {
			case seq == 7:
				return errcode.New(errcode.LetterUnusable, "this one never")
			case seq == 8:
				panic("a bug")
			case seq == 9 && tried[seq] < 3:
				return errcode.New(errcode.QueueFull, "not now")
			case seq == 10:
				return errcode.New(errcode.QueueFull, "never")
			}
			return nil
		}
		x.changed[11] = 1
		r := replica(t, open(t), "one", x.steps)
		if op := begin(t, r, "all"); op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_RUNNING || !op.GetStartedAt().IsValid() {
			t.Errorf("%v", op)
		}
		p := until(t, r, "all", ended)
		if p.GetState() != genbusv1.OperationProgress_STATE_DONE || p.GetDone() != 250 || p.GetChanged() != 246 || p.GetFailed() != 3 || !p.GetUpdatedAt().IsValid() {
			t.Errorf("%v", p)
		}
		if codes := fmt.Sprint(p.GetFailedByCode()); codes != "map[internal:1 letter_unusable:1 queue_full:1]" || len(p.GetFailures()) != 3 {
			t.Errorf("%v", p)
		}
		if tried[7] != 1 || tried[9] != 3 || tried[10] != 3 || x.count() != 247 {
			t.Errorf("%v, %d", tried, x.count())
		}
	})
}

// TestOneIDIsOneOperation, however often it is begun, and whichever replica is asked.
func TestOneIDIsOneOperation(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(20, 5)
		one, two := replica(t, open(t), "one", x.steps), replica(t, open(t), "two", x.steps)
		begin(t, one, "a")
		until(t, one, "a", ended)
		if op := begin(t, two, "a"); op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_DONE || op.GetProgress().GetReplica() != "one" {
			t.Errorf("%v", op)
		}
		other := operation("a")
		other.Spec = operation("b").GetSpec()
		if _, err := two.Begin(t.Context(), other); errcode.CodeOf(err) != errcode.IdempotencyKeyReused {
			t.Errorf("%v", err)
		}
		for _, id := range []string{"c", "no token.>", ""} {
			if _, err := two.Get(t.Context(), id); errcode.CodeOf(err) != errcode.OperationNotFound {
				t.Errorf("%q: %v", id, err)
			}
			if _, err := two.Stop(t.Context(), id); errcode.CodeOf(err) != errcode.OperationNotFound {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

// TestStartsAtOnce with one id: all hear of the one operation.
func TestStartsAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(20, 5)
		one, two := replica(t, open(t), "one", x.steps), replica(t, open(t), "two", x.steps)
		for i := range 20 {
			var all sync.WaitGroup
			for _, r := range []*bulk.Runner{one, two, one, two} {
				all.Go(func() {
					if op, err := r.Begin(t.Context(), operation(fmt.Sprint("o", i))); err != nil || op.GetId() == "" {
						t.Errorf("%v, %v", op, err)
					}
				})
			}
			all.Wait()
		}
	})
}

// TestWhatANewerVersionDoesIsLeftToIt: this one would leave a field of the filter out.
func TestWhatANewerVersionDoesIsLeftToIt(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	op := operation("a")
	if !bulk.IsKnown(op.GetSpec()) || bulk.IsKnown(&genbusv1.OperationSpec{}) {
		t.Error("it does not know what is known")
	}
	op.GetSpec().GetDropDeadLetters().GetFilter().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	left, x := replica(t, b, "left", newItems(10, 10).steps), newItems(10, 10)
	left.Close(t.Context())
	if _, err := left.Begin(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	begin(t, left, "b")
	r := replica(t, b, "one", x.steps)
	start(t, r)
	until(t, r, "b", ended) // it is the later one
	if p := until(t, r, "a", func(*genbusv1.OperationProgress) bool { return true }); p.GetReplica() != "" || ended(p) {
		t.Errorf("%v", p)
	}
}

// TestAReplicaThatDiesIsFollowed by one of the others: what it had stored is not done once more,
// and of the rest nothing is left out.
func TestAReplicaThatDiesIsFollowed(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(60, 10)
		reached, hangs := make(chan struct{}), make(chan struct{})
		x.before = func(seq uint64) error {
			if seq == 35 {
				close(reached)
				<-hangs
				return errors.New("the replica is dead")
			}
			return nil
		}
		first := replica(t, open(t), "first", x.steps)
		begin(t, first, "a")
		<-reached
		until(t, first, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() == 30 })
		first.Die()
		var mu sync.Mutex
		again := map[uint64]int{}
		y := newItems(60, 10)
		y.before = func(seq uint64) error {
			mu.Lock()
			defer mu.Unlock()
			again[seq]++
			return nil
		}
		x.mu.Lock()
		for seq := range x.changed {
			y.changed[seq] = 1
		}
		x.mu.Unlock()
		second, third := replica(t, open(t), "second", y.steps), replica(t, open(t), "third", y.steps)
		start(t, second)
		start(t, third)
		p := until(t, second, "a", ended)
		if p.GetState() != genbusv1.OperationProgress_STATE_DONE || p.GetReplica() == "first" || p.GetTakeovers() != 1 || p.GetDone() != 60 {
			t.Errorf("%v", p)
		}
		for seq := uint64(1); seq <= 60; seq++ {
			if y.changed[seq] != 1 || again[seq] > 1 || again[seq] == 1 != (seq > 30) {
				t.Errorf("letter %d: changed %d times, tried %d times by those that follow", seq, y.changed[seq], again[seq])
			}
		}
		close(hangs)
	})
}

// TestAReplicaThatStopsIsFollowedAtOnce, long before it would be taken for dead.
func TestAReplicaThatStopsIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(100, 10)
		reached, release := make(chan struct{}), make(chan struct{})
		x.before = func(seq uint64) error {
			if seq == 25 {
				close(reached)
				<-release
			}
			return nil
		}
		first := replica(t, open(t), "first", x.steps)
		begin(t, first, "a")
		<-reached
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			first.Close(t.Context())
		}()
		until(t, first, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() == 20 })
		close(release)
		<-closed
		if p := until(t, first, "a", func(*genbusv1.OperationProgress) bool { return true }); p.GetDone() != 30 || p.GetReplica() != "" || x.count() != 30 {
			t.Fatalf("%v, %d", p, x.count())
		}
		second := replica(t, open(t), "second", x.steps)
		second.Trust()
		start(t, second)
		p := until(t, second, "a", ended)
		if p.GetState() != genbusv1.OperationProgress_STATE_DONE || p.GetDone() != 100 || p.GetChanged() != 100 || x.count() != 100 {
			t.Errorf("%v, %d", p, x.count())
		}
	})
}

// TestAReplicaThatWasTakenForDeadGivesWay: where another one has gone on with its operation, that
// one has the last word.
func TestAReplicaThatWasTakenForDeadGivesWay(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(50, 10)
		reached, release := make(chan struct{}), make(chan struct{})
		x.before = func(seq uint64) error {
			if seq == 45 {
				close(reached)
				<-release
			}
			return nil
		}
		one := replica(t, open(t), "one", x.steps)
		begin(t, one, "a")
		<-reached
		two := open(t)
		takeOver(t, two, "two")
		until(t, one, "a", func(p *genbusv1.OperationProgress) bool { return p.GetReplica() == "two" })
		close(release)
		one.Close(t.Context())
		if p := until(t, one, "a", func(*genbusv1.OperationProgress) bool { return true }); p.GetReplica() != "two" || ended(p) {
			t.Errorf("%v", p)
		}
	})
}

// takeOver stores the word of another replica that goes on with operation a.
func takeOver(t *testing.T, b *broker.Broker, replica string) {
	t.Helper()
	subj := b.Names().OperationProgress("a")
	for {
		m, err := b.Last(t.Context(), b.Names().Ops(), subj)
		if err != nil {
			t.Fatal(err)
		}
		p := &genbusv1.OperationProgress{}
		if err := proto.Unmarshal(m.Data, p); err != nil {
			t.Fatal(err)
		}
		p.Replica = replica
		data, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out := nats.NewMsg(subj)
		out.Data = data
		_, err = b.PublishExpecting(t.Context(), broker.Jobs, out, m.Seq)
		if err == nil {
			return
		}
		if !errors.Is(err, broker.ErrWrongSequence) && !errors.Is(err, broker.ErrInFlight) {
			t.Fatal(err)
		}
	}
}

// TestAnOperationIsStopped, by any replica, also one that no replica does.
func TestAnOperationIsStopped(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(1<<40, 10)
		one := replica(t, open(t), "one", x.steps)
		begin(t, one, "a")
		two := replica(t, open(t), "two", x.steps)
		until(t, two, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > 0 })
		if op, err := two.Stop(t.Context(), "a"); err != nil || op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_STOPPING {
			t.Fatalf("%v, %v", op, err)
		}
		p := until(t, two, "a", ended)
		if p.GetState() != genbusv1.OperationProgress_STATE_STOPPED || p.GetChanged() != int64(x.count()) {
			t.Errorf("%v, %d", p, x.count())
		}
		if op, err := two.Stop(t.Context(), "a"); err != nil || op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_STOPPED {
			t.Errorf("%v, %v", op, err)
		}

		left := replica(t, open(t), "left", x.steps)
		left.Close(t.Context())
		begin(t, left, "b")
		if _, err := two.Stop(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		start(t, two)
		if p := until(t, two, "b", ended); p.GetState() != genbusv1.OperationProgress_STATE_STOPPED || p.GetDone() != 0 {
			t.Errorf("%v", p)
		}
	})
}

// TestWhatCannotGoOnFails, and says why; what may pass is waited for.
func TestWhatCannotGoOnFails(t *testing.T) {
	t.Parallel()
	x, asked := newItems(10, 10), 0
	r := replica(t, brokertest.Single(t), "one", func(ctx context.Context, op *genbusv1.Operation, cursor string) ([]bulk.Step, string, error) {
		if asked++; asked < 3 {
			return nil, "", errcode.New(errcode.IndexCatchingUp, "not yet")
		}
		if cursor == "" {
			steps, _, err := x.steps(ctx, op, cursor)
			return steps, "lost", err
		}
		return nil, "", errcode.New(errcode.InvalidPageToken, "of another version")
	})
	begin(t, r, "a")
	if p := until(t, r, "a", ended); p.GetState() != genbusv1.OperationProgress_STATE_FAILED || p.GetCode() != string(errcode.InvalidPageToken) || p.GetDone() != 10 {
		t.Errorf("%v", p)
	}
}

// TestAnOperationSaysWhyItWaits, and not once it goes on.
func TestAnOperationSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	x := newItems(10, 10)
	var ready atomic.Bool
	r := replica(t, brokertest.Single(t), "one", func(ctx context.Context, op *genbusv1.Operation, cursor string) ([]bulk.Step, string, error) {
		if !ready.Load() {
			return nil, "", errcode.New(errcode.IndexCatchingUp, "not yet")
		}
		return x.steps(ctx, op, cursor)
	})
	begin(t, r, "a")
	until(t, r, "a", func(p *genbusv1.OperationProgress) bool {
		return !ended(p) && p.GetCode() == string(errcode.IndexCatchingUp)
	})
	ready.Store(true)
	if p := until(t, r, "a", ended); p.GetState() != genbusv1.OperationProgress_STATE_DONE || p.GetCode() != "" || p.GetDone() != 10 {
		t.Errorf("%v", p)
	}
}

// TestAStopAtOnce meets the first progress of the replica: one of the two is second, and neither is
// lost.
func TestAStopAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(1<<40, 10)
		one, two := replica(t, open(t), "one", x.steps), replica(t, open(t), "two", x.steps)
		for i := range 10 {
			id := fmt.Sprint("o", i)
			begin(t, one, id)
			if op, err := two.Stop(t.Context(), id); err != nil || op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_STOPPING {
				t.Fatalf("%v, %v", op, err)
			}
			if p := until(t, two, id, ended); p.GetState() != genbusv1.OperationProgress_STATE_STOPPED {
				t.Errorf("%v", p)
			}
		}
	})
}

// TestAPanicOfAListEndsTheOperation, and no replica.
func TestAPanicOfAListEndsTheOperation(t *testing.T) {
	t.Parallel()
	r := replica(t, brokertest.Single(t), "one", func(context.Context, *genbusv1.Operation, string) ([]bulk.Step, string, error) { panic("a bug") })
	begin(t, r, "a")
	if p := until(t, r, "a", ended); p.GetState() != genbusv1.OperationProgress_STATE_FAILED || p.GetCode() != string(errcode.Internal) {
		t.Errorf("%v", p)
	}
}

// TestOperationsAreListed page after page, those that were begun last first.
func TestOperationsAreListed(t *testing.T) {
	t.Parallel()
	x := newItems(3, 1)
	r := replica(t, brokertest.Single(t), "one", x.steps)
	if ops, next, err := r.List(t.Context(), 0, ""); err != nil || len(ops) != 0 || next != "" {
		t.Fatalf("%v, %q, %v", ops, next, err)
	}
	for i := range 25 {
		id := fmt.Sprint("o", i)
		begin(t, r, id)
		until(t, r, id, ended)
	}
	var got []string
	for token, pages := "", 0; ; pages++ {
		ops, next, err := r.List(t.Context(), 10, token)
		if err != nil || len(ops) > 10 || pages > 3 {
			t.Fatalf("%v, %v", ops, err)
		}
		for _, op := range ops {
			got = append(got, op.GetId())
			if op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_DONE || op.GetOperator() != "ann" {
				t.Errorf("%v", op)
			}
		}
		if token = next; token == "" {
			break
		}
	}
	if len(got) != 25 || got[0] != "o24" || got[24] != "o0" {
		t.Errorf("%v", got)
	}
	if _, _, err := r.List(t.Context(), 0, "x"); errcode.CodeOf(err) != errcode.InvalidPageToken {
		t.Error(err)
	}
	if _, _, err := r.List(t.Context(), -1, ""); errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Error(err)
	}
}

package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestEachItemOfABacklogIsReadOnce proves that the number of replicas does not multiply the reads
// of a backlog.
func TestEachItemOfABacklogIsReadOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const count, places, many = 8, 4, 160
		b := open(t)
		replicas := []*replica{newReplica(t, b, places).start(t)}
		for range count - 1 {
			replicas = append(replicas, newReplica(t, open(t), places).start(t))
		}
		var reads atomic.Int64
		for _, api := range []string{"$JS.API.STREAM.MSG.GET.", "$JS.API.DIRECT.GET."} {
			sub, err := b.Conn().Subscribe(api+b.Names().Wait(), func(m *nats.Msg) {
				var request struct {
					Seq   uint64 `json:"seq"`
					Batch int64  `json:"batch"`
				}
				if json.Unmarshal(m.Data, &request) == nil && request.Seq > 0 { // not by subject, as admission does
					reads.Add(max(request.Batch, 1))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
		}
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range many {
			replicas[i%count].admit(t, "acme", fmt.Sprint(i))
		}
		waited := replicas[0].waiting(t)
		takeAll(t, replicas, many)
		await(t, "an empty backlog", func() bool { return replicas[0].waiting(t) == 0 })
		t.Logf("%d items of %d that waited were read", reads.Load(), waited)
		if waited < many/2 {
			t.Errorf("%d waited", waited)
		}
		if bound := int64(waited) * 12 / 10; reads.Load() > bound {
			t.Errorf("%d items were read; the bound is %d", reads.Load(), bound)
		}
	})
}

// TestAnotherReplicaDispatches proves that another replica takes over if the dispatching one is cut
// off.
func TestAnotherReplicaDispatches(t *testing.T) {
	t.Parallel()
	const places, many = 2, 30
	url := brokertest.Alone(t).ClientURL()
	lost, b := openAt(t, url), openAt(t, url)
	first := newReplica(t, lost, places).start(t)
	for i := range many {
		first.admit(t, "acme", fmt.Sprint(i))
	}
	first.indexed(t, 1)
	second := startBehind(t, newReplica(t, b, places))
	if n := indexing(t, []*replica{first, second}); !slices.Equal(n, []int{0, 1}) {
		t.Fatalf("the replicas know %v tenants", n)
	}
	lost.Conn().Close()
	takeAll(t, []*replica{second}, many)
	await(t, "an empty backlog", func() bool { return second.waiting(t) == 0 })
}

// startBehind starts a replica while another one dispatches, and waits until it has received a
// claim.
func startBehind(t testing.TB, r *replica) *replica {
	t.Helper()
	claims, err := r.b.Conn().SubscribeSync(r.b.Names().Dispatch())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = claims.Unsubscribe() }()
	r.start(t)
	for range 2 { // by the second claim, it listens
		if _, err := claims.NextMsg(patience); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func openAt(t testing.TB, url string) *broker.Broker {
	t.Helper()
	return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: url})
}

// TestAReplicaThatStopsHandsOverAtOnce proves that a stopping replica releases its claims, so that
// none has to expire.
func TestAReplicaThatStopsHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	first, second := newReplica(t, b, 1), newReplica(t, b, 1)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		var both sync.WaitGroup
		both.Go(func() { first.Run(ctx, brokertest.Logger(t)) })
		both.Go(func() { first.Dispatch(ctx, subject.Video, first.cfg.Routes[0].Name, 1, brokertest.Logger(t)) })
		both.Wait()
	}()
	for i := range 3 {
		first.admit(t, "acme", fmt.Sprint(i))
	}
	first.indexed(t, 1)
	released, err := b.Conn().SubscribeSync(b.Names().Dispatch())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	<-stopped
	for {
		m, err := released.NextMsg(patience)
		if err != nil {
			t.Fatalf("no release was sent: %v", err)
		}
		var said struct{ Released []string }
		if json.Unmarshal(m.Data, &said) == nil && slices.Contains(said.Released, subject.WorkDurable(subject.Video, first.cfg.Routes[0].Name)) {
			break
		}
	}
	second.start(t)
	second.indexed(t, 1)
}

// TestOthersPutJobsBehindABacklog proves that other replicas put jobs into the backlog while the
// dispatching one claims congestion.
func TestOthersPutJobsBehindABacklog(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	first := newReplica(t, b, 2).start(t)
	for i := range 3 {
		first.admit(t, "acme", fmt.Sprint(i))
	}
	first.indexed(t, 1)
	second := startBehind(t, newReplica(t, b, 400))
	admitted := 3
	for ; second.waiting(t) == 1; admitted++ { // until the second replica has received the claim
		if admitted == 390 {
			t.Fatal("the second replica has room, and puts no job behind the others")
		}
		second.admit(t, "b", fmt.Sprint(admitted))
		_ = broker.Wait(t.Context(), 10*time.Millisecond)
	}
	for range admitted {
		first.serve(t)
	}
	await(t, "an empty queue", func() bool { return second.waiting(t)+first.ready(t) == 0 })
	claims, err := b.Conn().SubscribeSync(b.Names().Dispatch())
	if err != nil {
		t.Fatal(err)
	}
	for calm := 0; calm < 2; { // by the second claim, the other replica has received the first
		m, err := claims.NextMsg(patience)
		if err != nil {
			t.Fatalf("no claim says that no job waits: %v", err)
		}
		var said struct {
			Claims map[string]struct{ Flag bool } // congested
		}
		if err := json.Unmarshal(m.Data, &said); err != nil {
			t.Fatal(err)
		}
		if claim, ok := said.Claims[subject.WorkDurable(subject.Video, config.SandboxVideoRoute)]; ok && !claim.Flag {
			calm++
		}
	}
	second.admit(t, "b", "late")
	if w, r := second.waiting(t), second.ready(t); w != 0 || r != 1 {
		t.Errorf("%d wait and %d are ready", w, r)
	}
}

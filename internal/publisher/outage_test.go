package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/test/freeport"
)

// restartable is a server that a test can stop and restart.
type restartable struct {
	opts server.Options
	s    *server.Server
}

func newRestartable(t testing.TB) *restartable {
	t.Helper()
	ports, err := freeport.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	r := &restartable{opts: server.Options{
		Host: "127.0.0.1", Port: ports[0], NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 16 << 30, MaxPayload: 8 << 20,
	}}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *restartable) start(t testing.TB) {
	t.Helper()
	opts := r.opts
	s, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server did not start")
	}
	r.s = s
}

func (r *restartable) stop() {
	r.s.Shutdown()
	r.s.WaitForShutdown()
}

func (r *restartable) open(t testing.TB) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: r.s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBlocksSurviveARestartOfTheServer checks that blocks added while the server is away get into
// the new stream. Blocks confirmed earlier are lost with the old stream, which was in memory.
func TestBlocksSurviveARestartOfTheServer(t *testing.T) {
	t.Parallel()
	s := newRestartable(t)
	b := s.open(t)
	w := newWriter(t, b, "")
	for i := range 100 {
		w.Add(sample(i))
	}
	flush(t, w, 100)
	equal(t, read(t, stored(t, b)), 100)
	s.stop()
	for i := range 500 {
		if !w.Add(sample(100 + i)) {
			t.Fatalf("block %d was given up", 100+i)
		}
	}
	s.start(t)
	flush(t, w, 600)
	next := uint64(100)
	for _, c := range stored(t, b) {
		if c.GetIndex() > next {
			t.Fatalf("chunk %d follows block %d", c.GetIndex(), next)
		}
		next = max(next, c.GetIndex()+uint64(len(c.GetBlocks())))
	}
	if next != 600 {
		t.Errorf("the new stream ends before block %d", next)
	}
}

// TestNodeOfAClusterGoesAway checks that stopping the writer's server in a cluster loses and
// reorders no block.
func TestNodeOfAClusterGoesAway(t *testing.T) {
	t.Parallel()
	cluster := brokertest.NewCluster(t)
	b := cluster.Open(t)
	w := newWriter(t, b, "")
	const blocks = 3000
	var down sync.WaitGroup
	defer down.Wait()
	for i := range blocks {
		w.Add(sample(i))
		if i == blocks/2 {
			flush(t, w, uint64(i+1))
			down.Go(func() {
				for _, s := range cluster.Servers {
					if s.ID() == b.Conn().ConnectedServerId() {
						s.Shutdown()
						s.WaitForShutdown()
						return
					}
				}
			})
		}
		if i > blocks/2 && i%20 == 0 {
			if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	flush(t, w, blocks)
	var chunks []*genbusv1.ChatChunk
	for chunks == nil { // the stream may have no leader for a moment
		if _, err := b.Last(t.Context(), b.Names().Chunks(), b.Names().Chunk(tenant, chatID)); err == nil {
			chunks = stored(t, b)
		}
	}
	equal(t, read(t, chunks), blocks)
}

// TestInlineIsBounded checks that blocks beyond the budget are dropped and counted, and keep their
// indices.
func TestInlineIsBounded(t *testing.T) {
	t.Parallel()
	s := newRestartable(t)
	b := s.open(t)
	metrics := telemetry.NewMetrics("test")
	budget := publisher.NewBudget(300 << 10)
	w := publisher.NewChunks(t.Context(), b, publisher.Encoder{Names: b.Names()}, broker.NewBodies(b), metrics, tenant, chatID, 1).Inline(budget)
	defer w.Close()
	s.stop()
	block := bytes.Repeat([]byte("1"), 100<<10)
	for i := range 10 {
		if taken := w.Add(block); taken != (i < 3) {
			t.Errorf("block %d: taken is %v", i, taken)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("given up")
	cancel(reason)
	if count, err := w.Flush(ctx); !errors.Is(err, reason) || count != 10 {
		t.Errorf("flush gave %d, %v", count, err)
	}
	s.start(t)
	waitCtx, stop := context.WithTimeout(t.Context(), brokertest.Patience)
	defer stop()
	if count, err := w.Flush(waitCtx); !errors.Is(err, publisher.ErrBlocksLost) || count != 10 {
		t.Errorf("flush gave %d, %v", count, err)
	}
	if !w.Add(block) {
		t.Error("there is capacity again, and the block was given up")
	}
	if count, err := w.Flush(waitCtx); !errors.Is(err, publisher.ErrBlocksLost) || count != 11 {
		t.Errorf("flush gave %d, %v", count, err)
	}
	var got []uint64
	for _, c := range stored(t, b) {
		for i := range c.GetBlocks() {
			got = append(got, c.GetIndex()+uint64(i))
		}
	}
	if fmt.Sprint(got) != "[0 1 2 10]" {
		t.Errorf("the stream has blocks %v", got)
	}
	if n := counter(t, metrics, "genbus_inline_events_dropped_total"); n != 7 {
		t.Errorf("%v dropped", n)
	}
	if !budget.Reserve(300 << 10) {
		t.Error("the budget was not given back")
	}
}

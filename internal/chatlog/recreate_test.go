package chatlog_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/freeport"
)

// renew recreates the stream of chunks, as a restart of the broker does.
func (x *bundle) renew() {
	x.t.Helper()
	if err := x.b.JetStream().DeleteStream(x.t.Context(), x.b.Names().Chunks()); err != nil {
		x.t.Fatal(err)
	}
	if err := x.b.Streams().Ensure(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
}

func TestExpiredTokenGivesTheCurrentState(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{EndWait: 10 * time.Millisecond})
	x.queued()
	x.started()
	x.chunk(1, 0, 2)
	r := x.read("")
	event := r.expect(t, "event 1", "event 2")
	chunk := r.expect(t, "chunk 1: 0 1")
	x.renew()
	x.chunk(1, 2, 1)

	again := x.read(chunk.Token)
	again.expect(t, "resume_expired at 1/0", "event 2", "gap at 1/0")
	last := again.expect(t, "chunk 1: 2")
	// A token after an event names no chunk of the old stream.
	x.read(event.Token).expect(t, "gap at 1/0", "chunk 1: 2")

	// The same stream, but purged.
	s, err := x.b.JetStream().Stream(t.Context(), x.b.Names().Chunks())
	if err != nil {
		t.Fatal(err)
	}
	x.replied(3)
	_, texts := x.all(last.Token)
	same(t, texts, "event 3")
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, texts = x.all(chunk.Token)
	same(t, texts, "resume_expired at 1/0", "gap at 1/0", "event 3")
	again.expect(t, "event 3")
	again.end(t)
}

func TestStreamOfChunksIsMissing(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{EndWait: 10 * time.Millisecond})
	x.queued()
	x.started()
	x.chunk(1, 0, 2)
	x.replied(2)
	if err := x.b.JetStream().DeleteStream(t.Context(), x.b.Names().Chunks()); err != nil {
		t.Fatal(err)
	}
	items, texts := x.all("")
	same(t, texts, "event 1", "event 2", "gap at 1/0", "event 3")
	_, texts = x.all(items[2].Token)
	same(t, texts, "event 3")
	_, texts = x.all(items[3].Token)
	same(t, texts)
}

// TestFollowersDetectANewStream proves that followers notice a recreated stream without a
// reconnect.
func TestFollowersDetectANewStream(t *testing.T) {
	t.Parallel()
	x := setup(t, brokertest.Single(t), chatlog.Options{RereadEvery: 20 * time.Millisecond})
	x.queued()
	x.started()
	r := x.read("")
	r.expect(t, "event 1", "event 2")
	for i := range 3 {
		x.chunk(1, i, 1)
	}
	r.expect(t, "chunk 1: 0", "chunk 1: 1", "chunk 1: 2")
	x.renew()
	x.chunk(1, 3, 1) // sequence 1 again
	x.chunk(1, 4, 1)
	r.expect(t, "chunk 1: 3", "chunk 1: 4")
	x.replied(5)
	r.expect(t, "event 3")
	r.end(t)
}

// TestFollowAcrossARestart proves that a follower continues after a restart that loses the chunks
// but not the job log.
func TestFollowAcrossARestart(t *testing.T) {
	t.Parallel()
	ports, err := freeport.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	opts := server.Options{
		Host: "127.0.0.1", Port: ports[0], NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 16 << 30,
	}
	start := func() *server.Server {
		o := opts
		s, err := server.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatal("the server did not start")
		}
		return s
	}
	s := start()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	x := setup(t, b, chatlog.Options{})
	back := make(chan struct{}, 1)
	b.OnReconnect(func(context.Context) { back <- struct{}{} })
	x.queued()
	x.started()
	r := x.read("")
	r.expect(t, "event 1", "event 2")
	x.chunk(1, 0, 2)
	r.expect(t, "chunk 1: 0 1")
	s.Shutdown()
	s.WaitForShutdown()
	s = start()
	<-back
	x.chunk(1, 2, 1)
	r.expect(t, "chunk 1: 2")
	x.replied(3)
	r.expect(t, "event 3")
	r.end(t)
}

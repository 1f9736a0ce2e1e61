package broker_test

import (
	"errors"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestWritesDoWithoutTheConnectionForReads, of which callers are told.
func TestWritesDoWithoutTheConnectionForReads(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	b.Conn().Close()
	put(t, b, msg(b.Names().Task(subject.Video, "t", "i"), "", "1"))
	put(t, b, msg(b.Names().Chunk("t", "i"), "", "1"))
	shortly(t, "callers are told", func() bool { return errors.Is(b.Trouble(), broker.ErrUnavailable) })
}

// TestALostConnectionForWritesIsTold to callers, and to those who ask whether it is ready.
func TestALostConnectionForWritesIsTold(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	b.WriteConn().Close()
	shortly(t, "callers are told", func() bool { return errors.Is(b.Trouble(), broker.ErrUnavailable) })
	if b.Ready(t.Context()) == nil {
		t.Error("it is ready without a connection for writes")
	}
}

// TestOneConnectionToARemoteServer: it does not become two that may be connected to different
// servers of a cluster.
func TestOneConnectionToARemoteServer(t *testing.T) {
	t.Parallel()
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: brokertest.Alone(t).ClientURL()})
	if b.Conn() != b.WriteConn() {
		t.Error("there are two connections to a remote server")
	}
}

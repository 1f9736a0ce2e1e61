package broker_test

import (
	"errors"
	"testing"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestWritesDoWithoutTheConnectionForReads proves that writes work without the other connection,
// and that Trouble reports its loss.
func TestWritesDoWithoutTheConnectionForReads(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	b.Conn().Close()
	put(t, b, msg(b.Names().Task(subject.Video, "t", "i"), "", "1"))
	put(t, b, msg(b.Names().Chunk("t", "i"), "", "1"))
	shortly(t, "callers are told", func() bool { return errors.Is(b.Trouble(), broker.ErrUnavailable) })
}

// TestALostConnectionForWritesIsReported proves that Trouble and Ready report the loss of the
// connection for writes.
func TestALostConnectionForWritesIsReported(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	b.WriteConn().Close()
	shortly(t, "callers are told", func() bool { return errors.Is(b.Trouble(), broker.ErrUnavailable) })
	if b.Ready(t.Context()) == nil {
		t.Error("it is ready without a connection for writes")
	}
}

// TestOneConnectionToARemoteServer proves that a remote server gets one connection, because two
// could reach different servers of a cluster.
func TestOneConnectionToARemoteServer(t *testing.T) {
	t.Parallel()
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: brokertest.Alone(t).ClientURL()})
	if b.Conn() != b.WriteConn() {
		t.Error("there are two connections to a remote server")
	}
}

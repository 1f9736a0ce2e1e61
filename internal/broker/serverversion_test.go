package broker_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// tooOld is a NATS server version that genbus refuses. .ci/full runs TestServerVersion with it.
const tooOld = "2.15.0"

// TestServerVersion proves that genbus does not start on a server that is too old, and stops taking
// jobs if it reconnects to one.
func TestServerVersion(t *testing.T) {
	t.Parallel()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), URL: brokertest.Alone(t).ClientURL(), Logger: brokertest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	const refusal = "NATS server alone has version " + tooOld + ", but genbus needs 2.15.1 or newer: older servers do not sync a compacted Raft log, so a power loss could lose confirmed writes"
	for call, err := range map[string]error{"Ensure": b.Streams().Ensure(t.Context()), "Ready": b.Ready(t.Context())} {
		if server.VERSION == tooOld && (err == nil || err.Error() != refusal) {
			t.Errorf("%s: %v, want %s", call, err, refusal)
		}
		if server.VERSION != tooOld && err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

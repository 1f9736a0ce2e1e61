package natsacl_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestAdministratorTakesBackups proves that the administrator has the permissions for
// docs/deploy.md. The log exceeds the 8 MiB that a server sends without acknowledgements, so the
// test covers these too.
func TestAdministratorTakesBackups(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n := start(t, deploy(t))
	limits := broker.Limits{RequestsMaxBytes: 1 << 30, TasksMaxBytes: 1 << 30, DeadMaxBytes: 1 << 30}
	b := n.ensure(t, limits)
	const events = 12
	for range events {
		m := nats.NewMsg(names.Task("video", attacker, "video_1"))
		m.Data = make([]byte, 1<<20)
		_, _ = rand.Read(m.Data) // never fails; random data cannot be compressed
		if _, err := b.Publish(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	from := n.connect(t, "administrator")
	saved, err := brokertest.TakeSnapshot(ctx, from, names.Tasks())
	if err != nil {
		t.Fatalf("%v; the server says: %v", err, n.log.violations())
	}

	empty := start(t, deploy(t))
	to := empty.connect(t, "administrator")
	if err := saved.Restore(ctx, to); err != nil {
		t.Fatalf("%v; the server says: %v", err, empty.log.violations())
	}
	s, err := stream(t, to).Stream(ctx, names.Tasks())
	if err != nil || s.CachedInfo().State.Msgs != events {
		t.Errorf("%v messages came back, %v", s.CachedInfo().State.Msgs, err)
	}
	if v := append(n.log.violations(), empty.log.violations()...); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
	empty.ensure(t, limits) // the service accepts the restored stream
}

package natsacl_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// TestTenantByReload adds a tenant to a server that runs. An account that a reload
// makes has the service imports of its file and no subscriptions to them: the server
// makes these at its start, and at a reload for accounts that it knew before
// (configureAccounts). So its requests find no responder until the next reload, in
// whatever order the accounts stand. Two reloads are enough for requests and copies.
//
// Should one be enough some day, the first half fails; then
// docs/nats-security.md asks for one too many.
func TestTenantByReload(t *testing.T) {
	t.Parallel()
	dir := deploy(t)
	first := options(t, dir)
	n := serve(t, dir, first)
	s := &stage{node: n, t: t, broker: n.ensure(t, broker.Limits{})}
	s.consumers()
	answer(t, n.connect(t, "service"))
	add(t, dir, victim)

	n.reload(t, dir, first.Port, first.StoreDir)
	publisher := n.connect(t, victim+"-publisher")
	if err := request(publisher); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a request after one reload: %v", err)
	}

	n.reload(t, dir, first.Port, first.StoreDir)
	if err := request(publisher); err != nil {
		t.Fatalf("a request after two reloads: %v", err)
	}
	s.provision(t, victim, 1)
	s.play(victim)
	s.await(victim, 3)
}

// answer answers requests as the service does.
func answer(t *testing.T, nc *nats.Conn) {
	t.Helper()
	_, err := nc.QueueSubscribe("genbus.call.*.*", "genbus", func(m *nats.Msg) { _ = m.Respond([]byte("accepted")) })
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func request(nc *nats.Conn) error {
	_, err := nc.Request(names.Call(subject.Video, victim), nil, patience)
	return err
}

package natsacl_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// TestTenantByReload proves that two reloads add a tenant to a running server. An account created
// by a reload has its service imports but no subscriptions for them. The server creates these at
// startup and, at a reload, for the accounts that it already had (configureAccounts). Until the
// next reload, requests find no responder, whatever the order of the accounts.
//
// If one reload ever suffices, the first half fails. Then docs/nats-security.md asks for one reload
// too many.
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

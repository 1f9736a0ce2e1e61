package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
)

// TestRefusesAtOnceWithoutAQuorum checks that without a quorum nothing is accepted, and that
// callers do not wait for the refusal.
func TestRefusesAtOnceWithoutAQuorum(t *testing.T) {
	t.Parallel()
	cluster := brokertest.NewCluster(t)
	s := setup(t, cluster.Open(t))
	if _, err := s.Admit(t.Context(), video("before", "a cat")); err != nil {
		t.Fatal(err)
	}
	for _, server := range cluster.Servers[1:] {
		server.Shutdown()
		server.WaitForShutdown()
	}
	for until := time.Now().Add(brokertest.Patience); s.b.Trouble() == nil; {
		if look(t, s.b, time.Second) == nil && time.Now().After(until) {
			t.Fatal("JetStream without a quorum is still called ready")
		}
	}
	noTime, end := context.WithCancel(t.Context())
	end()
	_, err := s.Admit(noTime, video("after", "a dog"))
	if f := errcode.From(err); f.Code != errcode.BrokerUnavailable || f.RetryAfter == 0 || !strings.Contains(f.Message, "nothing was accepted") {
		t.Errorf("got %v, want %s with advice to try again", err, errcode.BrokerUnavailable)
	}
	if err := s.log.Trouble(); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("the log has the trouble %v", err)
	}
}

// TestTroubleEndsWithTheNextGoodLook checks that a successful health check ends the trouble.
func TestTroubleEndsWithTheNextGoodLook(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	noTime, end := context.WithCancel(t.Context())
	end()
	if s.b.Ready(noTime) == nil {
		t.Fatal("a look without time found JetStream ready")
	}
	if _, err := s.Admit(t.Context(), video("", "a cat")); errcode.CodeOf(err) != errcode.BrokerUnavailable {
		t.Errorf("got %v while JetStream is in trouble", err)
	}
	if err := s.b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	entry, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil || entry.Version() != 1 {
		t.Errorf("got %v, %v after the recovery", entry, err)
	}
}

// look runs the broker's health check with a timeout.
func look(t *testing.T, b *broker.Broker, patience time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Ready(ctx)
}

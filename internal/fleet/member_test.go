package fleet_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/subject"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// address returns the address of a replica. Replicas whose IDs begin with the same letter replace
// each other.
func address(id string) string { return "host-" + id[:1] + ":8080" }

// join starts a member. leave announces its departure.
func join(t *testing.T, b *broker.Broker, id string) (m *fleet.Member, leave func()) {
	t.Helper()
	m = fleet.New(fleet.Options{
		Conn: b.Conn(), Names: b.Names(), Logger: brokertest.Logger(t), Self: id, Host: "host-" + id, Address: address(id),
		State: func() *genbusv1.ReplicaState {
			return &genbusv1.ReplicaState{Id: id, Host: "host-" + id, Address: address(id), Upstreams: []*genbusv1.UpstreamState{{Name: "u"}}}
		},
		Held: func(job string) *genbusv1.HeldJob {
			if job != "held-by-"+id {
				return nil
			}
			return &genbusv1.HeldJob{PollsFailed: 7}
		},
	})
	leave, err := m.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	return m, leave
}

// eventually waits until Ask returns these answered and silent replicas.
func eventually(t *testing.T, m *fleet.Member, answered, silent []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for {
		states, others, err := m.Ask(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got, missed []string
		for _, s := range states {
			got = append(got, s.GetId())
		}
		for _, s := range others {
			if s.GetHost() != "host-"+s.GetId() || !s.GetHeardAt().IsValid() {
				t.Errorf("%v", s)
			}
			missed = append(missed, s.GetId())
		}
		if slices.Equal(got, answered) && slices.Equal(missed, silent) {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("answered by %v, and silent are %v; want %v and %v", got, missed, answered, silent)
		}
	}
}

// TestAllReplicasAreAsked checks that Ask finds replicas that started later, omits one that left,
// and names one that disappeared.
func TestAllReplicasAreAsked(t *testing.T) {
	t.Parallel()
	server := brokertest.Alone(t)
	open := func() *broker.Broker {
		return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: slog.New(slog.DiscardHandler), URL: server.ClientURL()})
	}
	a, _ := join(t, open(), "a")
	eventually(t, a, []string{"a"}, nil)
	b, leave := join(t, open(), "b")
	lost := open()
	c, _ := join(t, lost, "c")
	for _, m := range []*fleet.Member{a, b, c} {
		eventually(t, m, []string{"a", "b", "c"}, nil)
	}
	// ask repeats the question while a replica is silent: a slow answer may take longer than Ask
	// waits.
	ask := func(asks *fleet.Member, job string) (states []*genbusv1.ReplicaState) {
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		for {
			states, silent, err := asks.AskForHolder(ctx, job)
			if err == nil && len(silent) == 0 {
				return states
			}
			if err != nil || broker.Wait(ctx, 10*time.Millisecond) != nil {
				t.Fatal(silent, err)
			}
		}
	}
	for _, asks := range []*fleet.Member{a, b, c} {
		states := ask(asks, "held-by-b")
		if i := slices.IndexFunc(states, func(s *genbusv1.ReplicaState) bool { return s.GetHeldJob().GetPollsFailed() == 7 }); i < 0 || states[i].GetId() != "b" || states[i].GetUpstreams() != nil {
			t.Errorf("the holder is not found in %v", states)
		}
	}
	if states := ask(a, "held-by-none"); len(states) != 3 {
		t.Errorf("for a job without a holder %v", states)
	}
	leave()
	eventually(t, a, []string{"a", "c"}, nil)
	lost.Conn().Close()
	eventually(t, a, []string{"a"}, []string{"c"})
	if states, silent, err := a.AskForHolder(t.Context(), "held-by-c"); err != nil || len(states) != 1 || len(silent) != 1 || silent[0].GetId() != "c" {
		t.Errorf("for a job of a replica that is lost %v, %v, %v", states, silent, err)
	}
	if got := a.Address("c"); got != "host-c:8080" || a.Address("a") != "host-a:8080" || a.Address("x") != "" {
		t.Errorf("the lost replica is known as %q", got)
	}
	join(t, open(), "c2")
	eventually(t, a, []string{"a", "c2"}, nil)
}

// TestInvalidReplicasAreIgnored checks that messages without a valid name neither list a replica
// nor block answers.
func TestInvalidReplicasAreIgnored(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	a, _ := join(t, b, "a")
	for _, id := range []string{"", "no token", "a"} {
		if err := b.Conn().PublishMsg(&nats.Msg{Subject: b.Names().Replicas(), Data: []byte("\xff"), Header: nats.Header{"genbus-replica": []string{id}}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, a, []string{"a"}, nil)
}

// TestAloneAsksNoOne checks that a single replica answers itself without asking.
func TestAloneAsksNoOne(t *testing.T) {
	t.Parallel()
	m := fleet.New(fleet.Options{Alone: true, State: func() *genbusv1.ReplicaState { return &genbusv1.ReplicaState{Id: "a"} }})
	leave, err := m.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if states, silent, err := m.Ask(t.Context()); err != nil || len(states) != 1 || len(silent) != 0 {
		t.Errorf("%v, %v, %v", states, silent, err)
	}
}

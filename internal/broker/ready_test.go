package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestReadyNamesAStreamOnce that is not there.
func TestReadyNamesAStreamOnce(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	for _, name := range []string{b.Names().Wait(), b.Names().Tasks()} {
		if err := b.JetStream().DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := b.Ready(t.Context()); err == nil || strings.Count(err.Error(), name) != 1 {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestARefusedStartNamesAStreamOnce: no stream is there, and JetStream (here a responder)
// refuses to look one up, or to create it.
func TestARefusedStartNamesAStreamOnce(t *testing.T) {
	t.Parallel()
	s := withoutJetStream(t)
	for call, name := range map[string]string{"INFO": subject.Default().Work(), "CREATE": subject.Default().Requests()} {
		b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Conn().Subscribe("$JS.API.STREAM.>", func(m *nats.Msg) {
			answer := `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`
			if m.Subject == "$JS.API.STREAM."+call+"."+name {
				answer = `{"error":{"code":500,"err_code":10023,"description":"insufficient resources"}}`
			}
			_ = m.Respond([]byte(answer))
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.Streams().Ensure(t.Context()); err == nil || strings.Count(err.Error(), name) != 1 || !strings.Contains(err.Error(), "insufficient resources") {
			t.Errorf("%s: %v", call, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAReadWaitsForALeader: JetStream (here a responder) has no leader for a stream until the
// third time it is asked.
func TestAReadWaitsForALeader(t *testing.T) {
	t.Parallel()
	b := electing(t, "$JS.API.STREAM.MSG.GET.S", `{"message":{"subject":"a","seq":7,"time":"2026-01-31T00:00:00Z"}}`)
	if m, err := b.Last(t.Context(), "S", "a"); err != nil || m.Seq != 7 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestAnElectionIsNoTroubleAtFirst: callers wait for the leader. They are refused at once when
// the election has taken as long as a request may wait.
func TestAnElectionIsNoTroubleAtFirst(t *testing.T) {
	t.Parallel()
	b := electing(t, "$JS.API.STREAM.INFO.*", "")
	begin := time.Now()
	for b.Trouble() == nil {
		if err := b.Ready(t.Context()); err == nil {
			t.Fatal("ready without a leader")
		}
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took < broker.PublishTimeout {
		t.Errorf("trouble after %s", took)
	}
}

// electing is connected to JetStream, here a responder, that has no leader for what it is asked
// on a subject. The third answer is another one, if it is not empty.
func electing(t *testing.T, asked, third string) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: withoutJetStream(t).ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	n := 0
	if _, err := b.Conn().Subscribe(asked, func(m *nats.Msg) {
		answer := `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
		if n++; n == 3 && third != "" {
			answer = third
		}
		_ = m.Respond([]byte(answer))
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

// withoutJetStream runs a server whose JetStream a test plays itself.
func withoutJetStream(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	return s
}

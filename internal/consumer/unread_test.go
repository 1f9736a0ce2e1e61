package consumer

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestHeldJobsEndWhileNothingCanBeRead proves that held jobs can end with only the connection for
// writes.
func TestHeldJobsEndWhileNothingCanBeRead(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	r := newReplica(t, b, testConfig(t, up.url))
	ids := inFlight(t, b, r.log, up, 2)
	names := b.Names()
	js, err := jetstream.New(b.WriteConn())
	if err != nil {
		t.Fatal(err)
	}
	b.Conn().Close()
	close(up.done)
	shortly(t, "their items are acknowledged", func() bool {
		work, err := js.Stream(t.Context(), names.Work())
		return err == nil && work.CachedInfo().State.Msgs == 0
	})
	log, err := js.Stream(t.Context(), names.Tasks())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		kind, _ := subject.KindOf(id)
		end, err := log.GetLastMsgForSubject(t.Context(), names.Task(kind, "acme", id))
		if err != nil || end.Header.Get(subject.HeaderStatus) != "completed" {
			t.Errorf("the last event of %s: %v, %v", id, end, err)
		}
	}
	up.askedOnce(t, 2, 1)
}

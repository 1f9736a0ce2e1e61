package jobtest

import (
	"errors"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject"
)

// CommitUnconfirmed commits an event of a held job. The link loses the answer, and the log refuses
// the retry. direct must bypass the link.
func CommitUnconfirmed(t testing.TB, link *faultinject.Link, direct *broker.Broker, held *hold.Job, e task.Event) {
	t.Helper()
	link.Delay(2 * time.Second) // long enough to see the event before its answer arrives
	committed := make(chan error, 1)
	go func() { committed <- held.Commit(t.Context(), e, held.Entry().Seq) }()
	log := Forerunner(t, direct)
	Shortly(t, "the event is stored", func() bool {
		stored, err := log.Get(t.Context(), held.Name())
		return err == nil && stored.Version() == e.Version()
	})
	link.Cut(faultinject.Blackhole)
	largestEvent(t, direct, 1)
	link.Cut(faultinject.Reset)
	link.Delay(0)
	link.Heal()
	if err := <-committed; !errors.Is(err, joblog.ErrUncertain) {
		t.Fatalf("the commit was heard: %v", err)
	}
	largestEvent(t, direct, -1)
}

// largestEvent limits the size of events in the log. A limit of -1 removes it.
func largestEvent(t testing.TB, b *broker.Broker, bytes int32) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = bytes
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

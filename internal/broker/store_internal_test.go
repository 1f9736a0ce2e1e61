package broker

import (
	"log/slog"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// openEmbedded opens a broker and creates its streams. It closes when the test ends.
func openEmbedded(t *testing.T, limits Limits, e Embedded) *Broker {
	t.Helper()
	b, err := Open(t.Context(), Options{Names: subject.Default(), Logger: slog.New(slog.DiscardHandler), Limits: limits, Embedded: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTheEmbeddedServerIsAskedOfItsDisk proves that a healthy stream is sound, and that batches
// need enough free store.
func TestTheEmbeddedServerIsAskedOfItsDisk(t *testing.T) {
	t.Parallel()
	for name, maxStore := range map[string]int64{"enough": 0, "none": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small := Limits{RequestsMaxBytes: 1 << 20, TasksMaxBytes: 1 << 20, DeadMaxBytes: 1 << 20, RejectedMaxBytes: 1 << 20, UsageMaxBytes: 1 << 20, OpsMaxBytes: 1 << 20}
			b := openEmbedded(t, small, Embedded{DataDir: t.TempDir(), MaxStore: maxStore})
			for _, stream := range batched(b.Names()) {
				if !b.embedded.sound(stream) {
					t.Errorf("stream %s has met an error", stream)
				}
			}
			if b.embedded.sound("NONE") {
				t.Error("a stream that is not there has met no error")
			}
			if got := b.embedded.hasBatchCapacity(); got != (maxStore == 0) {
				t.Errorf("capacity for batches: %t", got)
			}
		})
	}
}

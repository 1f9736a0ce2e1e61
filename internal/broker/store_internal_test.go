package broker

import (
	"log/slog"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// TestTheEmbeddedServerIsAskedOfItsDisk: whether a stream met no error, and whether there is
// room for batches.
func TestTheEmbeddedServerIsAskedOfItsDisk(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int64{"room": 0, "none": 64 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := Open(t.Context(), Options{
				Names: subject.Default(), Logger: slog.New(slog.DiscardHandler),
				Limits:   Limits{RequestsMaxBytes: 1 << 20, TasksMaxBytes: 1 << 20, DeadMaxBytes: 1 << 20, RejectedMaxBytes: 1 << 20, UsageMaxBytes: 1 << 20, OpsMaxBytes: 1 << 20},
				Embedded: Embedded{DataDir: t.TempDir(), MaxStore: most},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := b.Streams().Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, stream := range batched(b.Names()) {
				if !b.embedded.sound(stream) {
					t.Errorf("stream %s has met an error", stream)
				}
			}
			if b.embedded.sound("NONE") {
				t.Error("a stream that is not there has met no error")
			}
			if got := b.embedded.hasRoom(); got != (most == 0) {
				t.Errorf("room for batches: %t", got)
			}
		})
	}
}

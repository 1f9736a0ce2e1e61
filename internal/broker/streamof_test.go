package broker_test

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestStreamOfIsWhereTheServerStores proves that StreamOf names the stream that listens to a
// subject.
func TestStreamOfIsWhereTheServerStores(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	names := b.Names()
	example := strings.NewReplacer("*", "x", ">", "x.y")
	for _, s := range b.Streams().Configs() {
		if len(s.Subjects) == 0 {
			t.Errorf("%s listens to nothing", s.Name)
		}
		for _, pattern := range s.Subjects {
			if got := names.StreamOf(example.Replace(pattern)); got != s.Name {
				t.Errorf("%s: %q, want %s", pattern, got, s.Name)
			}
		}
	}
	for _, other := range []string{names.LiveTaskPattern(), names.LiveChunkPattern(), names.CallPattern(subject.Chat), "other.task.x", ""} {
		if got := names.StreamOf(other); got != "" {
			t.Errorf("%q is stored in %s", other, got)
		}
	}
}

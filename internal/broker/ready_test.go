package broker_test

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
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

package broker

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// TestTheLogOfTheServerRevealsAFullDisk proves that writes stop at the server's first report of a
// full disk, and that other errors in its log stop nothing.
func TestTheLogOfTheServerRevealsAFullDisk(t *testing.T) {
	t.Parallel()
	e := &embedded{}
	w := newWriter(newLink("test", slog.New(slog.DiscardHandler)), subject.Default(), e)
	log := serverLog{slog.New(slog.DiscardHandler), &e.faults}
	log.Errorf("Filestore [%s] Critical write error: %v", "GENBUS_TASKS", "write /data/4.blk: input/output error")
	log.Errorf("JetStream failed to store a msg on stream '%s': %v", "GENBUS_TASKS", "maximum bytes exceeded")
	log.Warnf("Filestore [%s] Critical write error: no space left on device", "GENBUS_TASKS")
	if err := w.diskFull(); err != nil {
		t.Fatalf("before the disk is full: %v", err)
	}
	log.Errorf("Filestore [%s] Critical write error: %v", "GENBUS_TASKS", "write /data/4.blk: no space left on device")
	if err := w.diskFull(); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "/data") || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("after that: %v", err)
	}
}

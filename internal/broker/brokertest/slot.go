package brokertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/genbus/genbus/internal/broker"
)

// slots is the number of tests on three nodes that run at a time on one machine, across packages.
// With more of them, two cores are so busy that streams lose their leaders for longer than a write
// may take.
const slots = 4

// slotDir is shared by a user's test processes. It is computed before StoreInMemory changes
// os.TempDir.
var slotDir = filepath.Join(os.TempDir(), fmt.Sprintf("genbus-test-%d", os.Getuid()))

// ThreeNodes skips the test unless the full suite runs. It then waits for one of the machine's
// slots for tests on three nodes and holds it until the test ends. NewCluster calls it. A test that
// starts servers otherwise must call it exactly once: tests that hold two slots could deadlock.
func ThreeNodes(t testing.TB) {
	t.Helper()
	Full(t, "runs on three nodes")
	claimSlot(t)
}

// claimSlot waits without a timeout; -timeout of the go command ends a run that hangs.
func claimSlot(t testing.TB) {
	t.Helper()
	if err := os.MkdirAll(slotDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for !tryClaim(t) {
		// The system sends no event when one of these files becomes free.
		if err := broker.Wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// tryClaim takes a free slot until the test ends. The system frees the slots of a process that
// dies.
func tryClaim(t testing.TB) bool {
	t.Helper()
	for i := range slots {
		slot := flock.New(filepath.Join(slotDir, "three-nodes-"+strconv.Itoa(i)))
		held, err := slot.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		if held {
			t.Cleanup(func() {
				if err := slot.Unlock(); err != nil {
					t.Error(err)
				}
			})
			return true
		}
	}
	return false
}

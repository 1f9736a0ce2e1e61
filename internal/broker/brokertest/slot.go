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

// slots is the number of tests on three nodes that may run at the same time on one machine, across
// packages. More of them would keep two cores so busy that streams lose their leaders for longer
// than a write may take.
const slots = 4

// slotDir is shared by a user's test processes. It is initialized before StoreInMemory changes the
// result of os.TempDir.
var slotDir = filepath.Join(os.TempDir(), fmt.Sprintf("genbus-test-%d", os.Getuid()))

// ThreeNodes skips the test unless the full suite runs. It then waits for one of the machine's
// slots for tests on three nodes and holds it until the test ends. NewCluster calls ThreeNodes. A
// test that starts its servers in another way must call it exactly once, because tests that hold
// two slots could deadlock.
func ThreeNodes(t testing.TB) {
	t.Helper()
	Full(t, "runs on three nodes")
	claimSlot(t)
}

// claimSlot waits without a timeout, because go test -timeout ends a run that hangs.
func claimSlot(t testing.TB) {
	t.Helper()
	if err := os.MkdirAll(slotDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for !tryClaim(t) {
		// The system sends no event when one of these files is unlocked.
		if err := broker.Wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// tryClaim claims a free slot until the test ends, and reports whether there was one. If a process
// dies, the system releases its slots.
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

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

// slots is how many tests on three nodes run at a time on one machine, over all packages. More
// keep two cores so busy that streams lose their leaders for longer than a write may take.
const slots = 4

// slotDir is one directory for all test processes of a user. StoreInMemory changes os.TempDir
// later.
var slotDir = filepath.Join(os.TempDir(), fmt.Sprintf("genbus-test-%d", os.Getuid()))

// ThreeNodes skips the test unless the full suite runs. Then it waits for one of the machine's
// slots for tests on three nodes, and holds it until the test ends. NewCluster calls it. A test
// that starts servers in another way calls it once: two slots for one test could block all.
func ThreeNodes(t testing.TB) {
	t.Helper()
	Full(t, "runs on three nodes")
	claimSlot(t)
}

// claimSlot waits without a bound of its own: the go command's -timeout ends a run that hangs.
func claimSlot(t testing.TB) {
	t.Helper()
	if err := os.MkdirAll(slotDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for !tryClaim(t) {
		// The system has no event for "one of these files is free".
		if err := broker.Wait(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// tryClaim takes a free slot, if there is one, until the test ends. The system frees those of
// a process that dies.
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

package brokertest

import (
	"os"
	"testing"
)

// suiteVariable chooses the suite. "full" runs every test.
const suiteVariable = "GENBUS_TEST"

// Full skips a test of the full suite, unless GENBUS_TEST=full. why is what keeps it out of
// `go test ./...`: three nodes, killed processes, attacks, packages to install.
func Full(t testing.TB, why string) {
	t.Helper()
	if !InFull() {
		t.Skipf("%s: run with %s=full", why, suiteVariable)
	}
}

// InFull reports whether the full suite runs.
func InFull() bool { return os.Getenv(suiteVariable) == "full" }

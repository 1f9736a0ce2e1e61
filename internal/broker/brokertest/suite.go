package brokertest

import (
	"os"
	"testing"
)

// suiteVariable chooses the suite. "full" runs every test.
const suiteVariable = "GENBUS_TEST"

// Full skips a test unless GENBUS_TEST=full. why says what the test needs or does, such as
// "runs on three nodes" or "kills the service"; the skip message begins with it.
func Full(t testing.TB, why string) {
	t.Helper()
	if !InFull() {
		t.Skipf("%s: run with %s=full", why, suiteVariable)
	}
}

// InFull reports whether the full suite runs.
func InFull() bool { return os.Getenv(suiteVariable) == "full" }

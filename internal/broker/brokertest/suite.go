package brokertest

import (
	"fmt"
	"os"
	"testing"
)

// suiteVariable is the environment variable that selects the test suite. "full" runs every test.
const suiteVariable = "GENBUS_TEST"

// Full skips a test unless GENBUS_TEST=full. why begins the skip message and describes what the
// test needs or does, such as "runs on three nodes" or "kills the service".
func Full(t testing.TB, why string) {
	t.Helper()
	full, err := InFull()
	if err != nil {
		t.Fatal(err)
	}
	if !full {
		t.Skipf("%s: run with %s=full", why, suiteVariable)
	}
}

// InFull reports whether the full suite runs. If GENBUS_TEST has any other value than "full",
// InFull returns an error, because fewer tests than intended would run.
func InFull() (bool, error) {
	switch v := os.Getenv(suiteVariable); v {
	case "full":
		return true, nil
	case "":
		return false, nil
	default:
		return false, fmt.Errorf("%s=%s is no suite: set it to full, or unset it", suiteVariable, v)
	}
}

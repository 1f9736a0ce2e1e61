package brokertest

import "testing"

// Long skips a test with -short. It is for those that take seconds, while shorter tests of
// the same package go the common path.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

package plural_test

import (
	"testing"

	"github.com/genbus/genbus/internal/plural"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0 dead letters match", 1: "1 dead letter matches", 2: "2 dead letters match", 11: "11 dead letters match"} {
		if got := plural.Count(n, "dead letter") + " " + plural.Form(n, "matches", "match"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

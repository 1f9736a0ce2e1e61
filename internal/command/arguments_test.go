package command

import (
	"slices"
	"strings"
	"testing"
)

// TestNegativeValuesAreJoined checks that only a flag and its negative value are joined, not other
// flags or arguments after "--".
func TestNegativeValuesAreJoined(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tasks list --limit -1 --since -1h":   "tasks list --limit=-1 --since=-1h",
		"jobs list --idle -.5h -m":            "jobs list --idle=-.5h -m",
		"tasks list --server --limit 1":       "tasks list --server --limit 1",
		"tasks list --limit=1 -1":             "tasks list --limit=1 -1",
		"submit video --model m -- --seed -1": "submit video --model m -- --seed -1",
		"events -m -1":                        "events -m -1",
		"events --since":                      "events --since",
		"":                                    "",
	} {
		args := strings.Fields(line)
		if got := strings.Join(JoinNegative(args), " "); got != want || !slices.Equal(args, strings.Fields(line)) {
			t.Errorf("%q became %q, want %q", line, got, want)
		}
	}
}

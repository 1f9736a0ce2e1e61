package protocol_test

import (
	"testing"

	"github.com/genbus/genbus/internal/protocol"
)

// TestNamesAndSegmentsAreUnique checks that no two protocols share a name or a path segment, since
// the configuration and the HTTP paths tell protocols apart by these.
func TestNamesAndSegmentsAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, p := range protocol.All() {
		for _, word := range []string{p.Name, p.Segment} {
			if other, taken := seen[word]; taken && other != p.Name && word != "" {
				t.Errorf("%s and %s both have %q", other, p.Name, word)
			}
			seen[word] = p.Name
		}
		if found, ok := protocol.Find(p.Name); !ok || found != p {
			t.Errorf("%s is not found", p.Name)
		}
	}
	if _, ok := protocol.Find("none"); ok {
		t.Error("a protocol named none is found")
	}
}

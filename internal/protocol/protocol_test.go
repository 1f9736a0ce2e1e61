package protocol_test

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/protocol"
)

// TestEveryProtocolIsWhole: what genbus needs of each entry is there, and no two
// share a name or the member that names the model together with their paths.
func TestEveryProtocolIsWhole(t *testing.T) {
	t.Parallel()
	names, paths := map[string]bool{}, map[string]bool{}
	for _, p := range protocol.All() {
		if p.Name == "" || p.New == nil || p.Bodies == nil || p.Bodies.ModelMember() == "" {
			t.Errorf("protocol %q is not whole", p.Name)
		}
		segment := ""
		if p.Surface != nil {
			segment = p.Surface.Segment()
		}
		path := protocol.CreatePath(p, segment)
		if names[p.Name] || paths[path] {
			t.Errorf("%s or %s is there twice", p.Name, path)
		}
		names[p.Name], paths[path] = true, true
		if !strings.HasPrefix(path, "POST /"+segment) {
			t.Errorf("%s is created with %q", p.Name, path)
		}
		if found, ok := protocol.Find(p.Name); !ok || found.Name != p.Name {
			t.Errorf("%s is not found", p.Name)
		}
	}
	if _, ok := protocol.Find("none"); ok || protocol.Default().Name != protocol.Names()[0] || len(names) < 4 {
		t.Errorf("names %v", protocol.Names())
	}
}

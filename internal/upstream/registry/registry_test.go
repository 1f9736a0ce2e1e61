package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// TestEveryProtocolHasAClient checks that the protocols and clients match one to one and in order,
// and that Info agrees with the client.
func TestEveryProtocolHasAClient(t *testing.T) {
	t.Parallel()
	var listed []protocol.Info
	paths := map[string]bool{}
	for _, p := range registry.All() {
		listed = append(listed, p.Info)
		if p.New == nil || p.Bodies == nil || p.Bodies.ModelMember() == "" || len(p.Outcomes) == 0 {
			t.Errorf("protocol %q lacks a part", p.Name)
		}
		if p.Signed != (p.Sign != nil) || (p.Segment != "") != (p.Surface != nil) {
			t.Errorf("protocol %q: signs %t, surface %v, data %+v", p.Name, p.Sign != nil, p.Surface, p.Info)
		}
		path := registry.CreatePath(p, p.Segment)
		if !strings.HasPrefix(path, "POST /"+p.Segment) || paths[path] {
			t.Errorf("%s is created with %q", p.Name, path)
		}
		paths[path] = true
		if found, ok := registry.Find(p.Name); !ok || found.Name != p.Name {
			t.Errorf("%s is not found", p.Name)
		}
	}
	if diff := cmp.Diff(protocol.All(), listed); diff != "" {
		t.Errorf("protocols without a client (-), clients without a protocol (+):\n%s", diff)
	}
	if registry.Default().Info != protocol.Default() {
		t.Errorf("default %q, data %q", registry.Default().Name, protocol.Default().Name)
	}
	if _, ok := registry.Find("none"); ok {
		t.Error("a protocol named none is found")
	}
}

package process

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestReadBuild(t *testing.T) {
	t.Parallel()
	// Go decides which settings a test binary records, so check the others.
	i := ReadBuild()
	if i.Version == "" || i.Go != runtime.Version() || i.OS != runtime.GOOS || i.Arch != runtime.GOARCH {
		t.Errorf("this is %+v", i)
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	machine := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	for _, c := range []struct {
		recorded debug.BuildInfo
		want     string
	}{
		{debug.BuildInfo{}, "devel (" + machine},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel (" + machine},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: vcs("false")}, "v1.2.3 (commit 0123456789ab of 2026-11-22T10:00:00Z, " + machine},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3+dirty"}, Settings: vcs("true")}, "v1.2.3+dirty (commit 0123456789ab of 2026-11-22T10:00:00Z and changes, " + machine},
	} {
		i := of(&c.recorded)
		if got := i.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if word, _, _ := strings.Cut(i.String(), " "); word != i.Version {
			t.Errorf("the first word of %q is not the version", i)
		}
	}
}

// Package process reports which build of genbus runs, and notifies systemd of its state.
package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Build describes a build, as recorded by Go in the binary. No value is set at link time, so builds
// of a commit are reproducible. Fields that Go did not record are empty; builds by "go run" and "go
// test" or outside a repository have no commit.
type Build struct {
	// Version is the commit's tag, such as v1.2.3; between tags, or with changed files, Go's
	// pseudo-version; "devel" if unknown.
	Version string `json:"version"`
	// Commit is the full hash.
	Commit string `json:"commit,omitempty"`
	// Time is the commit's time, RFC 3339 in UTC.
	Time string `json:"time,omitempty"`
	// Modified is true if files were changed after the commit.
	Modified bool `json:"modified"`
	// Go is the Go version of the build, such as go1.26.8.
	Go string `json:"go"`
	// OS and Arch are the target platform, such as linux and amd64.
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// ReadBuild returns the build of this process.
func ReadBuild() Build {
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{}
	}
	return of(recorded)
}

func of(recorded *debug.BuildInfo) Build {
	i := Build{Version: recorded.Main.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, s := range recorded.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Time = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = "devel"
	}
	return i
}

// String returns one line that starts with the version.
func (i Build) String() string {
	what := make([]string, 0, 3)
	if i.Commit != "" {
		commit := "commit " + i.Commit[:min(len(i.Commit), 12)]
		if i.Time != "" {
			commit += " of " + i.Time
		}
		if i.Modified {
			commit += " and changes"
		}
		what = append(what, commit)
	}
	return fmt.Sprintf("%s (%s)", i.Version, strings.Join(append(what, i.Go, i.OS+"/"+i.Arch), ", "))
}

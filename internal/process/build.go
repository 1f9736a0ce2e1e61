// Package process reports which build of genbus runs, and tells systemd its state.
package process

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Build is one build, as Go wrote it into the binary. Nothing is given at link time, so the same
// commit is the same bytes. Fields that Go did not record are empty: a build of "go run"
// and of "go test" has no commit, and neither has one outside a repository.
type Build struct {
	// Version is the tag of the commit, as v1.2.3; between tags, and with changed
	// files, Go's pseudo-version; "devel" where nothing is known.
	Version string `json:"version"`
	// Commit is the whole hash.
	Commit string `json:"commit,omitempty"`
	// Time is that of the commit, RFC 3339 in UTC.
	Time string `json:"time,omitempty"`
	// Modified says that files were changed after the commit.
	Modified bool `json:"modified"`
	// Go is the version of Go that built it, as go1.26.8.
	Go string `json:"go"`
	// OS and Arch are what it was built for, as linux and amd64.
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// ReadBuild gives the build of this process.
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

// String is one line, with the version as its first word.
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

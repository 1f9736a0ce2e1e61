package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// owner is the only package that may write to or delete from certain streams. names matches code
// that names these streams, or subjects and consumers that give access to their messages.
type owner struct {
	dir   string
	names *regexp.Regexp
}

var owners = []owner{
	{"internal/queue", regexp.MustCompile(`(?i)\b(?:names\(\)|names|n)\.(?:Work|Wait)(?:Pattern|RoutePattern|TenantPattern|AnyRoute|Item)?\(|\bsubject\.WorkDurable\(|GENBUS_(?:WORK|WAIT)"`)},
	{"internal/deadletter", regexp.MustCompile(`(?i)\b(?:names\(\)|names|n)\.(?:Dead|Rejected)(?:Pattern|Letters?)?\(|GENBUS_(?:DEAD|REJECTED)"`)},
}

// others may name every stream.
var others = []string{
	"internal/broker",       // creates the streams and counts their messages
	"internal/subject",      // defines the names
	"internal/contract",     // documents them
	"cmd/soak", "cmd/bench", // observe from outside
}

// TestOnlyTheOwnerNamesItsStreams proves that only internal/queue accesses GENBUS_WORK and
// GENBUS_WAIT, and only internal/deadletter the dead letter streams.
func TestOnlyTheOwnerNamesItsStreams(t *testing.T) {
	t.Parallel()
	root := os.DirFS("..")
	for _, dir := range []string{"internal", "cmd", "client"} {
		err := fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") {
				return err
			}
			text, err := fs.ReadFile(root, name)
			for _, o := range owners {
				if found := o.names.Find(text); found != nil && !within(name, append(others, o.dir)) {
					t.Errorf("%s has %s: go through %s", name, found, o.dir)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// within reports whether a file is below one of dirs.
func within(name string, dirs []string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

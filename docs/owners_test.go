package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// owner is the package that alone writes to streams and deletes from them. Names are the calls
// that name these streams, or the subjects and consumers of them that give access to what is
// stored.
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
	"internal/broker",       // creates the streams, and counts what is in them
	"internal/subject",      // their names
	"internal/contract",     // documents them
	"cmd/soak", "cmd/bench", // look from outside
}

// TestOnlyTheOwnerNamesItsStreams: what writes to GENBUS_WORK and GENBUS_WAIT is in
// internal/queue, and all that is done with the streams of letters in internal/deadletter.
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

// within reports whether a file is below one of some directories.
func within(name string, dirs []string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

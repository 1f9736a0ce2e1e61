package deadletter_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// streamNames are the calls that name the streams of letters, or their subjects.
var streamNames = regexp.MustCompile(`(?i)\b(?:names\(\)|names|n)\.(?:Dead|Rejected)(?:Pattern|Letters?)?\(|GENBUS_(?:DEAD|REJECTED)"`)

// TestOnlyThisPackageNamesItsStreams: what reads GENBUS_DEAD and GENBUS_REJECTED, writes to
// them or deletes from them is in this package.
func TestOnlyThisPackageNamesItsStreams(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"internal/deadletter",
		"internal/broker",       // creates the streams, and counts what is in them
		"internal/subject",      // their names
		"internal/contract",     // documents them
		"cmd/soak", "cmd/bench", // look from outside
	}
	root := os.DirFS("../..")
	for _, dir := range []string{"internal", "cmd", "client"} {
		err := fs.WalkDir(root, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") {
				return err
			}
			for _, prefix := range allowed {
				if strings.HasPrefix(name, prefix+"/") {
					return nil
				}
			}
			text, err := fs.ReadFile(root, name)
			if found := streamNames.Find(text); found != nil {
				t.Errorf("%s has %s: go through internal/deadletter", name, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

package queue_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// streamNames are the calls that name the streams, or the subjects and consumers of
// them that give access to what is stored.
var streamNames = regexp.MustCompile(`(?i)\b(?:names\(\)|names|n)\.(?:Work|Wait)(?:Pattern|RoutePattern|TenantPattern|AnyRoute|Item)?\(|\bsubject\.WorkDurable\(|GENBUS_(?:WORK|WAIT)"`)

// TestOnlyTheQueueNamesItsStreams: what writes to GENBUS_WORK and GENBUS_WAIT, or deletes
// from them, is in this package.
func TestOnlyTheQueueNamesItsStreams(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"internal/queue/",
		"internal/broker/",        // creates the streams, and counts what is in them
		"internal/subject/",       // their names
		"internal/contract/",      // documents them
		"cmd/soak/", "cmd/bench/", // look from outside
	}
	root := os.DirFS("../..")
	for _, dir := range []string{"internal", "cmd", "client"} {
		err := fs.WalkDir(root, dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, prefix := range allowed {
				if strings.HasPrefix(path, prefix) {
					return nil
				}
			}
			text, err := fs.ReadFile(root, path)
			if found := streamNames.Find(text); found != nil {
				t.Errorf("%s has %s: go through internal/queue", path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

package docs_test

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
)

// TestReloadSampleSaysWhatIsLogged proves that the log line in docs/deploy.md is the one that its sample
// produces.
func TestReloadSampleSaysWhatIsLogged(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/deploy.md")
	sample := regexp.MustCompile("(?s)```yaml\n([^`]*# added[^`]*)```").FindStringSubmatch(page)
	if sample == nil {
		t.Fatal("docs/deploy.md has no sample of a reload")
	}
	file := withoutAdditions(sample[1])
	source := config.Source{File: "genbus.yaml", ReadFile: func(path string) ([]byte, error) {
		if path == "genbus.yaml" {
			return []byte(file), nil
		}
		return fmt.Appendf(nil, "key-of-%d-bytes", len(path)), nil
	}}
	running, err := config.Load(source)
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	file = sample[1]
	_, changes, err := running.Reload(source)
	if err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	slog.New(slog.NewTextHandler(&line, nil)).Info("reloaded configuration", "added", changes.Added, "removed", changes.Removed, "changed", changes.Changed)
	_, said, _ := strings.Cut(line.String(), " ") // cut the time
	if !strings.Contains(page, said) {
		t.Errorf("the log says\n%s", said)
	}
}

// withoutAdditions returns the sample without the lines marked "# added" and without the contents
// of list entries marked so.
func withoutAdditions(sample string) string {
	var kept []string
	below := -1
	for line := range strings.Lines(sample) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if below >= 0 && indent > below {
			continue
		}
		below = -1
		switch {
		case !strings.Contains(line, "# added"):
			kept = append(kept, line)
		case strings.HasPrefix(strings.TrimLeft(line, " "), "- "):
			below = indent
		}
	}
	return strings.Join(kept, "")
}

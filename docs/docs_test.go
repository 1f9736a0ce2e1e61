// Package docs_test checks the documentation against the code: generated tables and samples, links,
// and names of subjects, metrics, variables, commands, files and tests. It does not check the
// prose.
package docs_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the samples of all documents")

const root = ".."

// documents returns the Markdown files at the root and under docs, by path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		out[name] = read(t, name)
	}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			out[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fencePattern   = regexp.MustCompile("(?ms)^```.*?^```$")
	notInAnchor    = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	for name, text := range docs {
		for _, m := range linkPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
			if anchor != "" && !anchors(docs[target])[anchor] {
				t.Errorf("%s links to %s: there is no such heading", name, m[1])
			}
		}
	}
}

// anchors returns GitHub's anchors for the headings of a document.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		heading := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return out
}

package docs_test

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = "docs/architecture.md"

const module = "github.com/genbus/genbus/"

var (
	// packagesPattern matches the marker of the package diagram and the block that follows it.
	packagesPattern = regexp.MustCompile("(?ms)^<!-- packages -->\n```mermaid\n(.*?)^```$")
	nodePattern     = regexp.MustCompile(`^(\w+)(?:\[([\w/]+)\])?$`)
	pathPattern     = regexp.MustCompile("`([a-z_]+/[\\w./-]*|[\\w./-]+\\.(?:go|proto|md))(?:: (\\w+))?`")
)

// TestPackagesAreDrawn proves that the diagram shows every package, that its arrows cover every
// import, and that each arrow is an import.
func TestPackagesAreDrawn(t *testing.T) {
	t.Parallel()
	text := read(t, architecture)
	block := packagesPattern.FindStringSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no diagram of the packages", architecture)
	}
	drawn := parseDiagram(t, block[1])
	imports := importsOf(t)
	for from, targets := range imports {
		if _, ok := drawn[from]; !ok {
			t.Errorf("%s does not draw %s", architecture, from)
			continue
		}
		if !strings.Contains(text, "`"+from+"`") {
			t.Errorf("%s does not say what %s is", architecture, from)
		}
		for _, to := range targets {
			if !reaches(drawn, from, to) {
				t.Errorf("%s imports %s, and no arrow of %s leads there", from, to, architecture)
			}
		}
	}
	for from, targets := range drawn {
		if _, ok := imports[from]; !ok {
			t.Errorf("%s draws %s, which does not exist", architecture, from)
		}
		for _, to := range targets {
			if !slices.Contains(imports[from], to) {
				t.Errorf("%s has an arrow from %s to %s, which is no import", architecture, from, to)
			}
		}
	}
}

// TestConfigKnowsNoClients proves that internal/config does not depend on an upstream client.
func TestConfigKnowsNoClients(t *testing.T) {
	t.Parallel()
	imports := importsOf(t)
	for name := range imports {
		if strings.HasPrefix(name, "internal/upstream") && reaches(imports, "internal/config", name) {
			t.Errorf("internal/config imports %s, directly or through other packages", name)
		}
	}
}

// TestDiagramIsRead proves that parseDiagram handles labels, groups and chained arrows.
func TestDiagramIsRead(t *testing.T) {
	t.Parallel()
	drawn := parseDiagram(t, "flowchart TD\n  subgraph one[the first]\n    a[x/a] & b\n  end\n  a --> b & c --> d[cmd/d]\n")
	if !reaches(drawn, "internal/x/a", "cmd/d") || !reaches(drawn, "internal/c", "cmd/d") {
		t.Error("a path is missing")
	}
	if reaches(drawn, "internal/b", "internal/c") || reaches(drawn, "cmd/d", "internal/b") {
		t.Error("there is a path that is not drawn")
	}
	if len(drawn) != 4 {
		t.Errorf("%d packages are drawn, not 4: %v", len(drawn), drawn)
	}
}

// TestFilesOfArchitectureExist proves that the paths on the page exist, relative to the root or to
// internal, and that a name after a colon occurs in its file.
func TestFilesOfArchitectureExist(t *testing.T) {
	t.Parallel()
	for _, m := range pathPattern.FindAllStringSubmatch(read(t, architecture), -1) {
		name := m[1]
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			name = path.Join("internal", name)
		}
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("%s names %s, which does not exist", architecture, m[1])
		} else if m[2] != "" && !strings.Contains(read(t, name), m[2]) {
			t.Errorf("%s says that %s has %s", architecture, name, m[2])
		}
	}
}

// parseDiagram returns the arrows of a flowchart, by their source package. A node's label is a
// package path, relative to internal unless it begins with cmd. A node without a label uses its ID.
func parseDiagram(t *testing.T, block string) map[string][]string {
	t.Helper()
	labels := map[string]string{}
	drawn := map[string][]string{}
	type arrow struct{ from, to string }
	var arrows []arrow
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		if line == "" || line == "end" || strings.HasPrefix(line, "flowchart ") || strings.HasPrefix(line, "subgraph ") {
			continue
		}
		var before []string
		for _, part := range strings.Split(line, "-->") {
			var nodes []string
			for _, node := range strings.Split(part, "&") {
				m := nodePattern.FindStringSubmatch(strings.TrimSpace(node))
				if m == nil {
					t.Fatalf("%q is no node that this test can read", node)
				}
				if m[2] != "" || labels[m[1]] == "" {
					labels[m[1]] = packagePath(m[1], m[2])
				}
				nodes = append(nodes, m[1])
				for _, from := range before {
					arrows = append(arrows, arrow{from, m[1]})
				}
			}
			before = nodes
		}
	}
	for _, name := range labels {
		drawn[name] = nil
	}
	for _, a := range arrows {
		drawn[labels[a.from]] = append(drawn[labels[a.from]], labels[a.to])
	}
	return drawn
}

func packagePath(id, label string) string {
	if label == "" {
		label = id
	}
	if strings.HasPrefix(label, "cmd/") || strings.HasPrefix(label, "internal/") {
		return label
	}
	return path.Join("internal", label)
}

// reaches reports whether arrows lead from one package to another.
func reaches(arrows map[string][]string, from, to string) bool {
	return slices.ContainsFunc(arrows[from], func(next string) bool { return next == to || reaches(arrows, next, to) })
}

// importsOf returns the internal imports of the program and of each package below internal, except
// test fixtures.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	add := func(name string) {
		pkg, err := build.ImportDir(filepath.Join(root, name), 0)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = []string{}
		for _, imported := range pkg.Imports {
			if local, ok := strings.CutPrefix(imported, module); ok && strings.HasPrefix(local, "internal/") {
				out[name] = append(out[name], local)
			}
		}
	}
	add("cmd/genbus")
	add("cmd/service")
	err := fs.WalkDir(os.DirFS(root), "internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test") {
			return fs.SkipDir
		}
		if files, _ := filepath.Glob(filepath.Join(root, name, "*.go")); len(files) > 0 {
			add(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNamedTestsExist proves that every test named in a page or an ADR exists.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	for _, page := range append(pages, "architecture.md", "decisions.md", "development.md") {
		for _, m := range named.FindAllStringSubmatch(read(t, path.Join("docs", page)), -1) {
			if !tests[m[1]] {
				t.Errorf("docs/%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

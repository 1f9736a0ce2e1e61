// Package docs_test holds the documents to the code: tables and samples are the
// code's own, names, links and tests exist, and every path has a row. It says
// nothing about the prose.
package docs_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/config"
)

var update = flag.Bool("update", false, "write docs/configuration.md, docs/compatibility.md and the samples of all documents")

const root = ".."

// documents are README.md, CHANGELOG.md and everything under docs, by their path
// from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"README.md", "CHANGELOG.md"} {
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

const configurationHead = `# Configuration

With this page an operator looks up every key: its variable, its default and its meaning. Generated from the comments in ` + "`internal/config`" + `; do not edit.

The configuration is a YAML file (` + "`GENBUS_CONFIG`" + `, or ` + "`--config`" + `), environment variables over it, and these defaults for everything else. Durations are written as ` + "`90s`, `15m`, `48h`" + `, sizes as ` + "`512KiB`, `4GiB`" + `.
Secrets are in variables or files, never in the configuration file. Examples: [genbus.yaml](../examples/genbus.yaml), [two-upstreams.yaml](../examples/two-upstreams.yaml), [protocols.yaml](../examples/protocols.yaml), [cluster.yaml](../examples/cluster.yaml).

## Check

` + "```sh" + `
go run ./cmd/service config example > genbus.yaml   # every key, its default and what it means
go run ./cmd/service config check genbus.yaml       # what serve would say of it: exit 0, or 1 and every problem with its line
go run ./cmd/service config print --config genbus.yaml   # what is in effect, without secrets
` + "```" + `

` + "`config check`" + ` reads the file, the environment, the secrets and the certificates as ` + "`serve`" + ` does, and says what ` + "`serve`" + ` would only warn of. It connects to nothing and needs no data directory.
A key or a variable that is not known is an error, with the name that was probably meant.

## Reload

SIGHUP has a running process take other routes, upstreams, keys and limits from the file, without dropping a job: [operations.md](operations.md#reload-the-configuration) says what, and what needs a restart.

## Keys

`

func TestConfigurationIsTheTable(t *testing.T) {
	const name = "docs/configuration.md"
	want := configurationHead + config.Table()
	if *update {
		write(t, name, want)
	}
	if diff := cmp.Diff(want, read(t, name)); diff != "" {
		t.Errorf("%s is not the table; run `go test ./docs -update`:\n%s", name, diff)
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

// anchors are the headings of a document as GitHub names them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headingPattern.FindAllStringSubmatch(fencePattern.ReplaceAllString(text, ""), -1) {
		heading := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return out
}

package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goPackage is a package in the output of go list.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
}

// TestEveryMetricIsRecorded checks that the program calls every exported method of the metrics
// types. A metric that is never recorded stays 0, and so do its alert and its panel.
func TestEveryMetricIsRecorded(t *testing.T) {
	t.Parallel()
	const self = "github.com/genbus/genbus/internal/telemetry"
	packages := listPackages(t, "../../cmd/service")
	fset := token.NewFileSet()
	exports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(packages[path].Export) })
	telemetry, err := exports.Import(self)
	if err != nil {
		t.Fatal(err)
	}
	unused := recording(telemetry)
	if len(unused) < 50 {
		t.Fatalf("only %d methods were found: the test no longer sees them", len(unused))
	}
	for _, p := range packages {
		if !slices.Contains(p.Imports, self) {
			continue
		}
		for _, used := range usesOf(t, fset, exports, p) {
			delete(unused, used)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s is called by nothing that cmd/service is built of", name)
	}
}

// listPackages returns a program's packages with their export data.
func listPackages(t *testing.T, program string) map[string]goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Imports", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]goPackage{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// recording returns the full names of the exported methods of the metrics types.
func recording(p *types.Package) map[string]bool {
	out := map[string]bool{}
	for _, name := range p.Scope().Names() {
		named, ok := p.Scope().Lookup(name).Type().(*types.Named)
		if !ok || !strings.HasSuffix(name, "Metrics") {
			continue
		}
		for m := range named.Methods() {
			if m.Exported() && m.Name() != "Gatherer" { // for tests
				out[m.FullName()] = true
			}
		}
	}
	return out
}

// usesOf returns the full names of the functions that a package uses.
func usesOf(t *testing.T, fset *token.FileSet, exports types.Importer, p goPackage) []string {
	t.Helper()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: exports}).Check(p.ImportPath, fset, files, info); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, object := range info.Uses {
		if f, ok := object.(*types.Func); ok {
			out = append(out, f.FullName())
		}
	}
	return out
}

// Command crosscheck type-checks a module for other systems. It reports errors such as names that
// do not exist on a system, or files excluded by build constraints. It generates no code and reads
// only the declarations of dependencies, so it takes seconds where cold builds take minutes.
//
//	crosscheck [-C dir] linux/arm64 windows/amd64 ...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	dir := flag.String("C", ".", "directory of the module")
	flag.Parse()
	bad := false
	for _, target := range flag.Args() {
		problems, err := check(*dir, target)
		if err != nil {
			problems = append(problems, err)
		}
		for _, p := range problems {
			bad = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", target, p)
		}
	}
	if bad {
		os.Exit(1)
	}
}

// pkg is an entry of "go list".
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // vendored packages of the standard library
	DepOnly         bool
}

// check type-checks every package of the module, dependencies first.
func check(dir, target string) (problems []error, err error) {
	system, machine, ok := strings.Cut(target, "/")
	if !ok {
		return nil, errors.New("want an operating system and an architecture, such as windows/amd64")
	}
	list := exec.Command("go", "list", "-C", dir, "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly", "./...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	r := reader{known: map[string]*types.Package{}, sizes: types.SizesFor("gc", machine)}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return problems, nil
		} else if err != nil {
			return problems, fmt.Errorf("go list: %w", err)
		}
		found, err := r.read(p)
		if err != nil {
			return problems, err
		}
		if !p.DepOnly {
			problems = append(problems, found...)
		}
	}
}

type reader struct {
	known map[string]*types.Package
	sizes types.Sizes
}

// read returns the type errors of a package. The caller ignores errors of dependencies, because
// parts of the runtime are not written in Go.
func (r reader) read(p pkg) (problems []error, err error) {
	if p.ImportPath == "unsafe" {
		return nil, nil
	}
	set := token.NewFileSet()
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	c := types.Config{
		Importer: imports{known: r.known, names: p.ImportMap}, Sizes: r.sizes, IgnoreFuncBodies: p.DepOnly, FakeImportC: true,
		Error: func(err error) { problems = append(problems, err) },
	}
	r.known[p.ImportPath], _ = c.Check(p.ImportPath, set, files, nil) // c.Error collected the errors
	return problems, nil
}

// imports resolves the imports of one package.
type imports struct {
	known map[string]*types.Package
	names map[string]string
}

// Import implements types.Importer.
func (i imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if name, ok := i.names[path]; ok {
		path = name
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s does not exist on this system", path)
}

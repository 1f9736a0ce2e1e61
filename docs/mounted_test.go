package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/protocol"
)

// mounted are the patterns of all paths that internal/api/httpapi serves: those that its
// source mounts by a constant, those of the generated gateway, and those of the
// vendors' surfaces below their default segments.
func mounted(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, tree := range parsePackage(t, "internal/api/httpapi", func(file string) bool { return !strings.HasSuffix(file, "_test.go") }) {
		consts := constants(tree)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				out = append(out, mounts(n, consts)...)
			case *ast.ValueSpec:
				out = append(out, listed(n)...)
			}
			return true
		})
	}
	for _, p := range protocol.All() {
		if p.Surface == nil {
			continue
		}
		for _, pattern := range p.Surface.Patterns() {
			method, path, _ := strings.Cut(pattern, " ")
			out = append(out, method+" /"+p.Surface.Segment()+path)
		}
	}
	if len(out) < 20 {
		t.Fatalf("internal/api/httpapi mounts %d paths: it does so in another way now", len(out))
	}
	return out
}

// mounts reads the pattern of a call of handle, Handle or HandleFunc.
func mounts(call *ast.CallExpr, consts map[string]string) []string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 || !slices.Contains([]string{"handle", "handleFor", "Handle", "HandleFunc"}, sel.Sel.Name) {
		return nil
	}
	if pattern, ok := text(call.Args[0], consts); ok {
		return []string{pattern}
	}
	return nil // of a loop over those that are found otherwise
}

// listed reads the elements of gatewayPatterns and operatorPatterns.
func listed(spec *ast.ValueSpec) (out []string) {
	if !slices.Contains([]string{"gatewayPatterns", "operatorPatterns"}, spec.Names[0].Name) || len(spec.Values) != 1 {
		return nil
	}
	list, ok := spec.Values[0].(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, element := range list.Elts {
		if pattern, ok := text(element, nil); ok {
			out = append(out, pattern)
		}
	}
	return out
}

// text is the value of a constant expression.
func text(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		value, err := strconv.Unquote(e.Value)
		return value, err == nil
	case *ast.Ident:
		value, ok := consts[e.Name]
		return value, ok
	case *ast.BinaryExpr:
		left, ok := text(e.X, consts)
		right, also := text(e.Y, consts)
		return left + right, ok && also && e.Op == token.ADD
	default:
		return "", false
	}
}

func constants(tree *ast.File) map[string]string {
	out := map[string]string{}
	ast.Inspect(tree, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return true
		}
		for _, spec := range decl.Specs {
			s, ok := spec.(*ast.ValueSpec)
			if !ok || len(s.Values) != len(s.Names) {
				continue
			}
			for i, name := range s.Names {
				if value, ok := text(s.Values[i], out); ok {
					out[name.Name] = value
				}
			}
		}
		return false
	})
	return out
}

// rpcs are the methods of genbus's gRPC services.
func rpcs() (out []string) {
	for _, file := range []protoreflect.FileDescriptor{
		genbusv1.File_genbus_v1_video_service_proto, genbusv1.File_genbus_v1_chat_service_proto, genbusv1.File_genbus_v1_model_service_proto,
		genbusv1.File_genbus_v1_operator_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				out = append(out, string(methods.Get(k).Name()))
			}
		}
	}
	return out
}

// parsePackage gives the syntax trees of a package, by the path of their files.
func parsePackage(t *testing.T, pkg string, wanted func(file string) bool) map[string]*ast.File {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no Go files: %v", pkg, err)
	}
	out := map[string]*ast.File{}
	for _, file := range files {
		if !wanted(file) {
			continue
		}
		tree, err := parseOnce(file)
		if err != nil {
			t.Fatal(err)
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.ToSlash(rel)] = tree
	}
	return out
}

// parsed has what was parsed before: hundreds of rows ask for the same few files.
var parsed sync.Map

func parseOnce(file string) (*ast.File, error) {
	if tree, ok := parsed.Load(file); ok {
		return tree.(*ast.File), nil //nolint:forcetypeassert // nothing else is put there
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err == nil {
		parsed.Store(file, tree)
	}
	return tree, err
}

// fileOf is the file that has a test. A subtest is known by its name as a string
// of that file.
func fileOf(t *testing.T, pkg, name string) string {
	t.Helper()
	name, sub, _ := strings.Cut(name, "/")
	for file, tree := range parsePackage(t, pkg, func(file string) bool { return strings.HasSuffix(file, "_test.go") }) {
		for _, decl := range tree.Decls {
			if f, ok := decl.(*ast.FuncDecl); !ok || f.Recv != nil || f.Name.Name != name {
				continue
			}
			if sub != "" && !says(tree, sub) {
				t.Errorf("%s %s has no subtest %q", pkg, name, sub)
			}
			return file
		}
	}
	t.Errorf("%s has no test %s", pkg, name)
	return pkg
}

func says(tree *ast.File, word string) (found bool) {
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			value, err := strconv.Unquote(lit.Value)
			found = found || err == nil && value == word
		}
		return !found
	})
	return found
}

package deploy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/console"
	"github.com/genbus/genbus/internal/errcode"
)

// TestAlertsLeadToTheConsole proves that each alert links to an existing view of the console, with
// filters that the view reads, or to an element of a template.
func TestAlertsLeadToTheConsole(t *testing.T) {
	t.Parallel()
	views, elements := consoleViews(t), consoleElements(t)
	for _, r := range rules(t) {
		labels := checkQuery(t, r.Expr).labels
		for _, m := range labelInUse.FindAllStringSubmatch(r.Annotations.Console, -1) {
			if !labels[m[1]] {
				t.Errorf("%s: the console's address names the label %s, which the result does not have", r.Alert, m[1])
			}
		}
		address := r.consoleInWords()
		u, err := url.Parse(address)
		if err != nil || strings.ContainsAny(address, "{} ") {
			t.Errorf("%s: %q is not an address of the console: %v", r.Alert, address, err)
			continue
		}
		if u.Fragment != "" && !slices.Contains(elements, u.Fragment) {
			t.Errorf("%s: no page of the console has an element %q", r.Alert, u.Fragment)
		}
		path, below := strings.CutPrefix(u.Path, console.Path)
		known, exists := views[path]
		if !below || !exists {
			t.Errorf("%s: the console has no view %s; it has %v", r.Alert, u.Path, slices.Sorted(maps.Keys(views)))
		}
		for name, values := range u.Query() {
			if !slices.Contains(known, name) {
				t.Errorf("%s: the view %s reads %v, but not %s", r.Alert, u.Path, known, name)
			}
			if code := values[0]; strings.HasSuffix(name, "code") && code != "CODE" && errcode.MeaningOf(errcode.Code(code)).Code != errcode.Code(code) {
				t.Errorf("%s: there is no error code %s", r.Alert, code)
			}
		}
	}
}

var elementID = regexp.MustCompile(`<[a-z]+ id="([a-z-]+)"`)

// consoleElements returns the IDs of elements in the console's templates.
func consoleElements(t *testing.T) (ids []string) {
	t.Helper()
	pages, err := filepath.Glob("../internal/api/console/templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range elementID.FindAllSubmatch(text, -1) {
			ids = append(ids, string(m[1]))
		}
	}
	return ids
}

// consoleViews maps the pattern of each console view to the query parameters that its loader reads.
func consoleViews(t *testing.T) map[string][]string {
	t.Helper()
	functions := map[string]*ast.FuncDecl{}
	var table *ast.CompositeLit
	for _, file := range goFiles(t, "../internal/api/console") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil {
					functions[n.Name.Name] = n
				}
			case *ast.ValueSpec:
				if n.Names[0].Name == "views" && len(n.Values) == 1 {
					table, _ = n.Values[0].(*ast.CompositeLit)
				}
			}
			return true
		})
	}
	if table == nil {
		t.Fatal("found no table of views in internal/api/console")
	}
	out := map[string][]string{}
	for _, element := range table.Elts {
		entry, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		pattern, _ := literal(entry.Key)
		out[pattern] = parametersOf(entry.Value, functions, map[string]bool{})
	}
	return out
}

// parametersOf returns the literal arguments of get, number and values below root, including
// package functions that it calls.
func parametersOf(root ast.Node, functions map[string]*ast.FuncDecl, seen map[string]bool) (names []string) {
	ast.Inspect(root, func(n ast.Node) bool {
		var asked ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 1 && slices.Contains([]string{"get", "number"}, sel.Sel.Name) {
				asked = n.Args[0]
			}
		case *ast.IndexExpr:
			if sel, ok := n.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "values" {
				asked = n.Index
			}
		case *ast.Ident:
			if f := functions[n.Name]; f != nil && !seen[n.Name] {
				seen[n.Name] = true
				names = append(names, parametersOf(f.Body, functions, seen)...)
			}
		}
		if name, ok := literal(asked); ok {
			names = append(names, name)
		}
		return true
	})
	return names
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(lit.Value)
	return value, err == nil
}

// goFiles returns the syntax trees of a package without its tests.
func goFiles(t *testing.T, dir string) (out []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file)
	}
	return out
}

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samplePattern is a marker, "<!-- file -->" or "<!-- file name -->", and the
// block of Go below it, which is that file or what it declares under that name: a
// function, a type or a variable.
var samplePattern = regexp.MustCompile("(?ms)^<!-- (\\S+\\.go)(?: (\\w+))? -->\n```go\n(.*?)^```$")

func TestGoSamplesAreCompiled(t *testing.T) {
	for name, text := range documents(t) {
		if *update {
			text = refresh(t, text)
			write(t, name, text)
		}
		samples := samplePattern.FindAllStringSubmatch(text, -1)
		for _, m := range samples {
			if diff := cmp.Diff(source(t, m[1], m[2]), m[3]); diff != "" {
				t.Errorf("%s: the sample is not %s %s; run `go test ./docs -update`:\n%s", name, m[1], m[2], diff)
			}
		}
		if blocks := strings.Count(text, "```go\n"); blocks != len(samples) {
			t.Errorf("%s has %d blocks of Go, and %d of them say which file they are from", name, blocks, len(samples))
		}
	}
}

func refresh(t *testing.T, text string) string {
	t.Helper()
	return samplePattern.ReplaceAllStringFunc(text, func(block string) string {
		m := samplePattern.FindStringSubmatch(block)
		head, _, _ := strings.Cut(block, "\n")
		return head + "\n```go\n" + source(t, m[1], m[2]) + "```"
	})
}

// source is a file, or one declaration of it with its comment.
func source(t *testing.T, file, name string) string {
	t.Helper()
	text := read(t, file)
	if name == "" {
		return text
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range tree.Decls {
		declared, doc := declares(decl)
		if declared != name {
			continue
		}
		begin := decl.Pos()
		if doc != nil {
			begin = doc.Pos()
		}
		return text[set.Position(begin).Offset:set.Position(decl.End()).Offset] + "\n"
	}
	t.Fatalf("%s declares no %s", file, name)
	return ""
}

// declares gives the name that a declaration declares, where it is one, and its
// comment.
func declares(decl ast.Decl) (string, *ast.CommentGroup) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Name.Name, d.Doc
	case *ast.GenDecl:
		if len(d.Specs) != 1 {
			return "", nil
		}
		switch spec := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return spec.Name.Name, d.Doc
		case *ast.ValueSpec:
			return spec.Names[0].Name, d.Doc
		}
	}
	return "", nil
}

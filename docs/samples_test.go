package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samplePattern is a marker, "<!-- file -->" or "<!-- file name -->", and the
// block below it, which is that file or what it declares under that name: in Go a
// function, a type or a variable, in JavaScript and Python a function. Tests run
// these programs.
var samplePattern = regexp.MustCompile("(?ms)^<!-- (\\S+\\.(?:go|js|py))(?: (\\w+))? -->\n```(go|js|python)\n(.*?)^```$")

func TestSamplesAreOfPrograms(t *testing.T) {
	for name, text := range documents(t) {
		if *update {
			text = refresh(t, text)
			write(t, name, text)
		}
		samples := samplePattern.FindAllStringSubmatch(text, -1)
		for _, m := range samples {
			if diff := cmp.Diff(source(t, m[1], m[2]), m[4]); diff != "" {
				t.Errorf("%s: the sample is not %s %s; run `go test ./docs -update`:\n%s", name, m[1], m[2], diff)
			}
		}
		// A few lines that only set an address have no file, but in Go.
		blocks := strings.Count(text, "```go\n")
		if name == "docs/languages.md" {
			blocks += strings.Count(text, "```js\n") + strings.Count(text, "```python\n")
		}
		if blocks > len(samples) {
			t.Errorf("%s has %d blocks of programs, and %d of them say which file they are from", name, blocks, len(samples))
		}
	}
}

func refresh(t *testing.T, text string) string {
	t.Helper()
	return samplePattern.ReplaceAllStringFunc(text, func(block string) string {
		m := samplePattern.FindStringSubmatch(block)
		head, _, _ := strings.Cut(block, "\n")
		return head + "\n```" + m[3] + "\n" + source(t, m[1], m[2]) + "```"
	})
}

// source is a file, or one declaration of it with its comment.
func source(t *testing.T, file, name string) string {
	t.Helper()
	text := read(t, file)
	switch {
	case name == "":
		return text
	case !strings.HasSuffix(file, ".go"):
		return function(t, file, text, name)
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

// function is a function of JavaScript or Python with the comment above it: from
// where no indentation begins it to the last line that is indented, and in
// JavaScript the brace that follows.
func function(t *testing.T, file, text, name string) string {
	t.Helper()
	head := regexp.MustCompile(`^(?:export )?(?:async )?(?:function|def) ` + name + `\(`)
	lines := strings.Split(text, "\n")
	begin := slices.IndexFunc(lines, head.MatchString)
	if begin < 0 {
		t.Fatalf("%s declares no %s", file, name)
	}
	end := begin + 1
	for i := end; i < len(lines) && (lines[i] == "" || lines[i][0] == ' '); i++ {
		if lines[i] != "" {
			end = i + 1
		}
	}
	if end < len(lines) && lines[end] == "}" {
		end++
	}
	for begin > 0 && strings.HasPrefix(strings.TrimSpace(lines[begin-1]), commentOf[filepath.Ext(file)]) {
		begin--
	}
	if begin > 0 && strings.HasPrefix(lines[begin-1], "/**") {
		begin--
	}
	return strings.Join(lines[begin:end], "\n") + "\n"
}

// commentOf begins each line of a comment but the first, by the end of a file's
// name.
var commentOf = map[string]string{".js": "*", ".py": "#"}

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

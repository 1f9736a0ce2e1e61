package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samplePattern matches a marker, "<!-- file -->" or "<!-- file name -->", and the block that
// follows it. The block repeats the file or its declaration of that name: in Go a function, type or
// variable, in JavaScript and Python a function. Tests run these programs.
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
		// JavaScript and Python snippets on other pages need no file.
		blocks := strings.Count(text, "```go\n")
		if slices.Contains([]string{"docs/node.md", "docs/python.md", "docs/http.md"}, name) {
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

// function returns a JavaScript or Python function with the comment above it. The function ends
// with the last indented line or, in JavaScript, with the closing brace after it.
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

// commentOf maps a file extension to the prefix of comment lines.
var commentOf = map[string]string{".js": "*", ".py": "#"}

// declares returns the name and comment of a declaration of a single name.
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

// sampleID matches a request ID in a header, in a JSON or Go field, or in an OpenAPI example.
var sampleID = regexp.MustCompile(`(?:Idempotency-Key"?: "?|"(?:request_id|external_task_id|example)": ?"|RequestId: +"|request-id:)([a-z]+-\d+)`)

// TestSamplesHaveTheirOwnRequestIDs proves that no two pages use the same request ID. Otherwise a
// reader who follows both would get a conflict.
func TestSamplesHaveTheirOwnRequestIDs(t *testing.T) {
	pages := documents(t)
	for _, name := range []string{"client/example_test.go", "docs/openapi.json"} {
		pages[name] = read(t, name)
	}
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		for _, m := range sampleID.FindAllStringSubmatch(pages[name], -1) {
			if other, used := first[m[1]]; used && other != name {
				t.Errorf("%s and %s both send the request id %s", other, name, m[1])
			}
			first[m[1]] = name
		}
	}
	if len(first) < 5 {
		t.Errorf("only %v were found", first)
	}
}

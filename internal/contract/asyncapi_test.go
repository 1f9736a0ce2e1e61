package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/subject"
)

func asyncAPI(t *testing.T, n subject.Space) ([]byte, *contracttest.Document) {
	t.Helper()
	raw, err := contract.AsyncAPI(n)
	if err != nil {
		t.Fatal(err)
	}
	d, err := contracttest.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	return raw, d
}

func TestAsyncAPIIsInDocs(t *testing.T) {
	t.Parallel()
	raw, _ := asyncAPI(t, subject.Default())
	contract.SameFile(t, "../../docs/asyncapi.json", raw)
}

// addresses maps the channels' addresses to expressions that match their subjects.
func addresses(d *contracttest.Document) map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	channels, _ := d.Find("channels").(map[string]any)
	for id := range channels {
		if address, ok := d.Find("channels", id, "address").(string); ok {
			pattern := regexp.MustCompile(`\\\{(\w+)\\\}`).ReplaceAllString(regexp.QuoteMeta(address), `[^.]+`)
			out[address] = regexp.MustCompile("^" + pattern + "$")
		}
	}
	return out
}

// TestEverySubjectHasAChannel checks that every name built by internal/subject is a channel or
// stream of the document, and that every channel can be built.
func TestEverySubjectHasAChannel(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"genbus", "team-a.video"} {
		n, err := subject.New(prefix)
		if err != nil {
			t.Fatal(err)
		}
		_, d := asyncAPI(t, n)
		known, made, named := addresses(d), map[string]bool{}, map[string]bool{}
		for method, made1 := range built(n) {
			if !strings.HasPrefix(made1, prefix+".") {
				if !named[made1] && !hasStream(d, made1) {
					t.Errorf("%s: the document has no stream %s", method, made1)
				}
				named[made1] = true
				continue
			}
			if strings.HasPrefix(made1, prefix+".internal.") {
				continue // messages between replicas
			}
			fits := false
			for address, pattern := range known {
				literal := pattern.MatchString(made1)
				made[address] = made[address] || literal && !strings.ContainsAny(made1, "*>")
				fits = fits || literal || covers(made1, address)
			}
			if !fits {
				t.Errorf("%s: the document has no channel for %s", method, made1)
			}
		}
		for address := range known {
			if !made[address] {
				t.Errorf("nothing in internal/subject builds %s", address)
			}
		}
	}
}

// built returns the result of every method of a space for sample arguments, by method and kind.
func built(n subject.Space) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(n)
	for i := range v.NumMethod() {
		m, name := v.Method(i), v.Type().Method(i).Name
		if name == "Prefix" || name == "StreamOf" || m.Type().NumOut() != 1 || m.Type().Out(0).Kind() != reflect.String {
			continue // parsers, and the prefix common to all names
		}
		for _, k := range subject.Kinds {
			var args []reflect.Value
			for p := range m.Type().NumIn() {
				if m.Type().In(p) == reflect.TypeFor[subject.Kind]() {
					args = append(args, reflect.ValueOf(k))
				} else {
					args = append(args, reflect.ValueOf("x"))
				}
			}
			out[name+" "+string(k)] = m.Call(args)[0].String()
		}
	}
	return out
}

// covers reports whether a pattern with wildcards matches subjects of an address.
func covers(pattern, address string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(address, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return i < len(have)
		case i >= len(have), token != "*" && token != have[i] && !strings.HasPrefix(have[i], "{"):
			return false
		}
	}
	return len(want) == len(have)
}

func hasStream(d *contracttest.Document, name string) bool {
	list, _ := d.Find("x-genbus-streams").([]any)
	return slices.ContainsFunc(list, func(s any) bool {
		m, _ := s.(map[string]any)
		listed, _ := m["name"].(string)
		return strings.ReplaceAll(listed, "{tenant}", "x") == name
	})
}

// TestEveryHeaderIsInTheDocument checks that the header constants of internal/subject and the
// headers of the messages are the same.
func TestEveryHeaderIsInTheDocument(t *testing.T) {
	t.Parallel()
	_, d := asyncAPI(t, subject.Default())
	listed := map[string]bool{}
	messages, _ := d.Find("components", "messages").(map[string]any)
	for name := range messages {
		properties, _ := d.Find("components", "messages", name, "headers", "properties").(map[string]any)
		for header := range properties {
			listed[header] = true
		}
	}
	constants := headerConstants(t)
	for _, name := range constants {
		if !listed[name] {
			t.Errorf("no message of the document has the header %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !slices.Contains(constants, name) && !strings.HasPrefix(name, "Nats-") {
			t.Errorf("internal/subject has no header %s", name)
		}
	}
}

// headerConstants returns the values of all Header constants of internal/subject.
func headerConstants(t *testing.T) (out []string) {
	t.Helper()
	const dir = "../subject"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Header") {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				value, _ := strconv.Unquote(lit.Value)
				out = append(out, value)
			}
			return true
		})
	}
	if len(out) < 20 {
		t.Fatalf("only %d headers were found", len(out))
	}
	return out
}

// TestAsyncReferencesResolve checks that every reference resolves, and that every message belongs
// to a channel.
func TestAsyncReferencesResolve(t *testing.T) {
	t.Parallel()
	raw, d := asyncAPI(t, subject.Default())
	used := references(t, raw, d)
	for _, kind := range []string{"schemas", "messages"} {
		all, _ := d.Find("components", kind).(map[string]any)
		for name := range all {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("nothing uses the %s %s", kind, name)
			}
		}
	}
}

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// templates returns the subjects that the builders make, with placeholders for variable tokens.
func templates() []string {
	n := subject.Default()
	const kind, tenant, id = subject.Kind("<kind>"), "<tenant>", "<id>"
	return []string{
		n.Request(kind, tenant), n.Call(kind, tenant), n.Get(kind, tenant), n.List(kind, tenant), n.Cancel(kind, tenant), n.Content(tenant), n.Models(tenant), n.WorkItem(kind, "<route>", tenant, id), n.WaitItem(kind, "<route>", tenant, id), n.Task(kind, tenant, id),
		n.Done(kind, tenant, "<status>", id), n.Chunk(tenant, id), n.LiveTask(kind, tenant, id), n.LiveChunk(tenant, id), n.Usage(kind, tenant, id),
		// Literals, because the builders replace a placeholder tenant. TestDeadLetterTemplate
		// checks them.
		"genbus.dead.<kind>.<tenant>.<id>", "genbus.rejected.<kind>.<tenant>.<slot>",
	}
}

func TestDeadLetterTemplate(t *testing.T) {
	t.Parallel()
	if got := subject.Default().DeadLetter("K", "T", "I"); got != "genbus.dead.K.T.I" {
		t.Errorf("dead letters go to %s; correct the template and docs/events.md", got)
	}
	if got := subject.Default().RejectedDeadLetter("K", "T", "S"); got != "genbus.rejected.K.T.S" {
		t.Errorf("rejected requests go to %s; correct the template and docs/events.md", got)
	}
}

func streams() []string {
	n := subject.Default()
	return []string{n.Requests(), n.Work(), n.Wait(), n.Tasks(), n.Chunks(), n.Dead(), n.Rejected(), n.UsageStream(), n.Ops()}
}

func TestEventsNameEverySubject(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/events.md")
	for _, name := range append(templates(), streams()...) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/events.md does not name %s", name)
		}
	}
}

var subjectPattern = regexp.MustCompile(`genbus\.(?:request|call|get|list|cancel|content|models|work|wait|task|done|chunk|live|dead|rejected|usage)(?:\.(?:[A-Za-z0-9_-]+|<[a-z]+>|[*>]))*`)

func TestSubjectsExist(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, s := range subjectPattern.FindAllString(text, -1) {
			if !slices.ContainsFunc(templates(), func(template string) bool { return fits(template, s) }) {
				t.Errorf("%s names the subject %s, which nothing builds", name, s)
			}
		}
	}
}

// fits reports whether s, a subject or pattern or the first tokens of one, can match template.
func fits(template, s string) bool {
	want, have := strings.Split(template, "."), strings.Split(s, ".")
	if len(have) > len(want) {
		return false
	}
	for i, token := range have {
		varies := strings.HasPrefix(want[i], "<")
		if token == ">" {
			return i == len(have)-1
		}
		isKind := want[i] == "<kind>"
		switch {
		case token == want[i], varies && token == "*":
		case isKind && !subject.Kind(token).Valid(), !varies, strings.HasPrefix(token, "<"):
			return false
		}
	}
	return true
}

func TestFits(t *testing.T) {
	t.Parallel()
	const template = "genbus.task.<kind>.<tenant>.<id>"
	for s, want := range map[string]bool{
		template: true, "genbus.task.>": true, "genbus.task": true, "genbus.task.video.acme.*": true, "genbus.task.video.<tenant>.x": true,
		"genbus.task.vidio.acme.x": false, "genbus.task.<tenant>.acme": false, "genbus.task.video.a.b.c": false, "genbus.tasks.>": false,
	} {
		if got := fits(template, s); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}

var (
	variablePattern = regexp.MustCompile(`GENBUS_[A-Z_]+`)
	rowPattern      = regexp.MustCompile("(?m)^\\| [^|]* \\| `(GENBUS_[A-Z_]+)` \\|") // of docs/configuration.md
	metricPattern   = regexp.MustCompile(`genbus_[a-z_]+`)
	registered      = regexp.MustCompile(`(?:counters?|gauges?|histograms)\(f,(?: \w+,)? "(\w+)"`)
)

func TestVariablesAndStreamsExist(t *testing.T) {
	t.Parallel()
	known := append(streams(), subject.Default().Bodies(""), "GENBUS_TEST")
	for _, row := range rowPattern.FindAllStringSubmatch(read(t, "docs/configuration.md"), -1) {
		known = append(known, row[1])
	}
	for name, text := range documents(t) {
		for _, word := range variablePattern.FindAllString(text, -1) {
			if word != "GENBUS_" && !slices.Contains(known, word) {
				t.Errorf("%s names %s, which is neither a variable nor a stream", name, word)
			}
		}
	}
}

func TestHeadersAreDescribed(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/events.md") + read(t, "docs/requests.md") + read(t, "docs/content.md")
	tree := parse(t, "internal/subject/header.go")
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name := strings.Trim(lit.Value, `"`); name != subject.MetadataRevision && name != subject.MetadataPause && !strings.Contains(text, name) {
				t.Errorf("docs/events.md, docs/requests.md and docs/content.md do not name %s", name)
			}
		}
		return true
	})
}

func TestMetricsAreDescribed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "internal/telemetry/metrics_*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no metrics found", err)
	}
	known := []string{"genbus_build_info"}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range registered.FindAllSubmatch(source, -1) {
			known = append(known, "genbus_"+string(m[1]))
		}
	}
	const table = "docs/monitoring.md"
	described := metricPattern.FindAllString(read(t, table), -1)
	for _, name := range known {
		if !slices.Contains(described, name) {
			t.Errorf("%s does not describe %s", table, name)
		}
	}
	for _, page := range []string{table, "docs/alerts.md", "docs/operator.md"} {
		for _, name := range metricPattern.FindAllString(read(t, page), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
	}
}

var sandboxRow = regexp.MustCompile("(?m)^\\| (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*)( \\*)? \\| (?:all|video|chat) \\|")

func TestSandboxFieldsAreDescribed(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, m := range sandboxRow.FindAllStringSubmatch(read(t, "docs/sandbox.md"), -1) {
		for field := range strings.SplitSeq(m[1], ", ") {
			described[strings.Trim(field, "`")] = true
		}
	}
	behaviour := reflect.TypeFor[sandbox.Behaviour]()
	for i := range behaviour.NumField() {
		name, _, _ := strings.Cut(behaviour.Field(i).Tag.Get("json"), ",")
		if !described[name] {
			t.Errorf("docs/sandbox.md does not describe %s", name)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("docs/sandbox.md describes %s, which does not exist", name)
	}
}

var (
	commandPattern = regexp.MustCompile(`go run (\./[\w/]+)(?: ([a-z]+))?`)
	codePattern    = regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)` \\(\\d{3}\\)")
)

func TestCommandsExist(t *testing.T) {
	t.Parallel()
	subcommands := serviceCommands(t)
	for name, text := range documents(t) {
		for _, m := range commandPattern.FindAllStringSubmatch(text, -1) {
			files, err := filepath.Glob(filepath.Join(root, m[1], "*.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: %s: there is no such program", name, m[0])
			}
			if (m[1] == "./cmd/genbus" || m[1] == "./cmd/service") && m[2] != "" && !slices.Contains(subcommands, m[2]) {
				t.Errorf("%s: %s: there is no such command; there are %v", name, m[0], subcommands)
			}
		}
		for _, m := range codePattern.FindAllStringSubmatch(text, -1) {
			if code := errcode.Code(m[1]); errcode.MeaningOf(code).Code != code {
				t.Errorf("%s names the error code %s, which does not exist", name, code)
			}
		}
	}
}

// serviceCommands returns the fields of struct cli in lower case.
func serviceCommands(t *testing.T) (out []string) {
	t.Helper()
	ast.Inspect(parse(t, "internal/cli/cli.go"), func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "cli" {
			return true
		}
		if body, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range body.Fields.List {
				for _, name := range field.Names {
					out = append(out, strings.ToLower(name.Name))
				}
			}
		}
		return false
	})
	if len(out) == 0 {
		t.Fatal("internal/cli/cli.go has no struct cli")
	}
	return out
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

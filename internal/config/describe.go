package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// The comments of the structs are the documentation; embedding them keeps one copy of each sentence.
//
//go:embed config.go nats.go upstream.go route.go auth.go tenants.go tls.go
var structSources embed.FS

// Row describes one key of the configuration.
type Row struct {
	Key     string // YAML path; <name> stands for a name of yours, [] for an element of a list; empty where only a variable exists
	Env     string // the variable that overrides it, if there is one
	Default string // "required" where there is none
	Meaning string
}

// Describe returns one row for each key, in the order of the struct, and then the variables that are no key.
func Describe() ([]Row, error) {
	comments, err := fieldComments()
	if err != nil {
		return nil, fmt.Errorf("read the comments of the configuration: %w", err)
	}
	return append(describeStruct(reflect.TypeFor[Config](), "", comments), environmentRows()...), nil
}

func environmentRows() []Row {
	return []Row{
		{Env: envConfig, Default: "none", Meaning: "Path of the configuration file, YAML."},
		{Env: envUpstreamURL, Default: "none", Meaning: `Base address of the upstream "default". Without routes, it serves every video and chat model.`},
		{Env: envUpstreamKey, Default: "none", Meaning: `API key of the upstream "default".`},
		{Env: envUpstreamKeyFile, Default: "none", Meaning: `File that holds the API key of the upstream "default".`},
		{Env: envAPIKey, Default: "none", Meaning: `API key that callers must send; they are the tenant "default".`},
		{Env: envAPIKeyFile, Default: "none", Meaning: `File that holds the API key of the tenant "default".`},
		{Env: envOperatorKey, Default: "none", Meaning: `Key of the operator "operator", for the operator's methods.`},
		{Env: envOperatorKeyFile, Default: "none", Meaning: `File that holds the key of the operator "operator".`},
	}
}

// Table returns the rows of Describe as a Markdown table.
func Table() (string, error) {
	rows, err := Describe()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Key | Variable | Default | Meaning |\n|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(row.Key), code(row.Env), row.Default, strings.ReplaceAll(row.Meaning, "|", `\|`))
	}
	return b.String(), nil
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func describeStruct(t reflect.Type, path string, comments map[string]string) []Row {
	var rows []Row
	for i := range t.NumField() {
		field := t.Field(i)
		key := field.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		key = join(path, key)
		if element, step := structOf(field.Type); element != nil {
			rows = append(rows, describeStruct(element, key+step, comments)...)
			continue
		}
		row := Row{Key: key, Env: field.Tag.Get("env")}
		row.Meaning, row.Default = splitComment(comments[t.Name()+"."+field.Name])
		rows = append(rows, row)
	}
	return rows
}

// structOf returns the struct that holds the keys below a field, and the step of the path that leads there.
func structOf(t reflect.Type) (element reflect.Type, step string) {
	switch {
	case t.Kind() == reflect.Struct:
		return t, ""
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), ".<name>"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "[]"
	}
	return nil, ""
}

// splitComment takes the default off the end of a field's comment.
func splitComment(comment string) (meaning, value string) {
	if meaning, ok := strings.CutSuffix(comment, " Required."); ok {
		return meaning, "required"
	}
	i := strings.LastIndex(comment, " Default: ")
	if i < 0 {
		return comment, ""
	}
	return comment[:i], strings.TrimSuffix(comment[i+len(" Default: "):], ".")
}

// fieldComments returns the comment of each struct field as one line, by "Type.Field".
func fieldComments() (map[string]string, error) {
	files, err := structSources.ReadDir(".")
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	for _, file := range files {
		source, err := structSources.ReadFile(file.Name())
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file.Name(), source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				collectComments(spec, comments)
			}
			return true
		})
	}
	return comments, nil
}

func collectComments(spec *ast.TypeSpec, comments map[string]string) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range body.Fields.List {
		for _, name := range field.Names {
			comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
	}
}

package config

import (
	"fmt"
	"reflect"
	"strings"
)

// The comments of the structs are the documentation. TestComments writes them where the service can read them, and fails
// for one that has changed since.
//
//go:generate go test . -run ^TestComments$ -update

// Row describes one key of the configuration.
type Row struct {
	Key     string // YAML path; <name> is a name of yours, [] for an element of a list; empty where only a variable exists
	Env     string // the variable that overrides it, if there is one
	Default string // "required" where there is none
	Meaning string
}

// Describe returns one row for each key, in the order of the struct, and then the variables that are no key.
func Describe() []Row {
	return append(describeStruct(reflect.TypeFor[Config](), ""), environmentRows()...)
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
func Table() string {
	var b strings.Builder
	b.WriteString("| Key | Variable | Default | Meaning |\n|---|---|---|---|\n")
	for _, row := range Describe() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(row.Key), code(row.Env), row.Default, strings.ReplaceAll(row.Meaning, "|", `\|`))
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func describeStruct(t reflect.Type, path string) []Row {
	var rows []Row
	for i := range t.NumField() {
		field := t.Field(i)
		key := field.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		key = join(path, key)
		if element, step := structOf(field.Type); element != nil {
			rows = append(rows, describeStruct(element, key+step)...)
			continue
		}
		row := Row{Key: key, Env: field.Tag.Get("env")}
		row.Meaning, row.Default = splitComment(fieldComments[t.Name()+"."+field.Name])
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

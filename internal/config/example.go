package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

const exampleHead = `## Configuration of genbus, with every key. Lines that begin with ## are explanations. Other lines that begin with #
## are keys with their defaults. To change one, remove the # from its line and from the lines of its parent keys.
## Replace the upstreams and routes with yours. Keep secrets in variables or files, and give only their names here.
##
## Check the file before you use it. To make a running process reread it, send SIGHUP.
##
##   genbus config check genbus.yaml
##
## Variables override the file. Most are named at their keys. The others are:
`

// The field comments are the documentation. TestComments copies them to comments.gen.go for the
// service, and fails if that file is stale.
//
//go:generate go test . -run ^TestComments$ -update

// Example returns a complete, valid YAML configuration with every key, its default and its meaning.
// Keys at their default are commented out with #; explanations begin with ##.
func Example() string {
	var e exampleWriter
	e.WriteString(exampleHead)
	for _, v := range environment {
		fmt.Fprintf(&e, "##   %s: %s\n", v.name, v.meaning)
	}
	e.section(reflect.ValueOf(exampleConfig()).Elem(), place{})
	return e.String()
}

// exampleConfig returns a configuration with one element in each list and map, with the defaults
// that Load fills in.
func exampleConfig() *Config {
	c := Default()
	upstream := NewUpstream("https://api.example.com")
	upstream.Keys = []UpstreamKey{{Name: "first", KeyEnv: "FIRST_UPSTREAM_KEY"}}
	c.Upstreams = Upstreams{"main": upstream}
	c.Routes = []Route{NewRoute("video", KindVideo, "main", "*"), NewRoute("chat", KindChat, "main", "*")}
	c.APIKeys = []APIKey{{Tenant: "acme", KeyEnv: "ACME_KEY"}}
	c.OperatorKeys = []OperatorKey{{Name: "ops", KeyEnv: "OPS_KEY"}}
	c.Tenants = Tenants{"acme": {}}
	c.fill()
	return c
}

// exampleActive lists the keys that are not commented out in the example, because they are required
// and have no default.
var exampleActive = map[string]bool{
	"upstreams": true, "upstreams.main": true, "upstreams.main.base_url": true,
	"routes": true, "routes[]": true, "routes[].name": true, "routes[].kind": true, "routes[].models": true, "routes[].upstream": true,
}

type place struct {
	path   string // with [] for any element of a list
	indent int
	item   bool // the next key is the first one of a list element
	terse  bool // only active keys and no explanations, because the previous element had them
}

func (p place) at(key string) place {
	p.path = join(p.path, key)
	return p
}

type exampleWriter struct{ strings.Builder }

func (e *exampleWriter) section(v reflect.Value, p place) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key := field.Tag.Get("yaml")
		at := p.at(key)
		if key == "" || key == "-" || p.terse && !exampleActive[at.path] {
			continue
		}
		e.space(p)
		if !p.terse {
			e.explain(fieldComments[v.Type().Name()+"."+field.Name], field.Tag.Get("env"), p)
		}
		if element, _ := structOf(field.Type); element != nil {
			e.line(p, key+":", exampleActive[at.path])
			at.item, at.indent = false, p.indent+1
			e.below(v.Field(i), at)
		} else {
			e.line(p, key+": "+inline(v.Field(i)), exampleActive[at.path])
		}
		p.item = false
	}
}

// below writes the keys of a nested section, list or map.
func (e *exampleWriter) below(v reflect.Value, p place) {
	switch v.Kind() {
	case reflect.Slice:
		p.path, p.item, p.indent = p.path+"[]", true, p.indent+1
		for i := range v.Len() {
			p.terse = i > 0
			e.section(v.Index(i), p)
		}
	case reflect.Map:
		for _, name := range sortedKeys(mapOf(v)) {
			at := p.at(name)
			e.line(p, name+":", exampleActive[at.path])
			at.indent++
			e.section(v.MapIndex(reflect.ValueOf(name)), at)
		}
	default:
		e.section(v, p)
	}
}

func (e *exampleWriter) space(p place) {
	if p.path == "" {
		e.WriteString("\n")
	}
}

// explain writes a field's comment and its variable on one line.
func (e *exampleWriter) explain(comment, env string, p place) {
	if env != "" {
		comment += " Variable: " + env + "."
	}
	if comment != "" {
		e.WriteString("## " + strings.Repeat("  ", p.indent) + comment + "\n")
	}
}

func (e *exampleWriter) line(p place, text string, active bool) {
	indent := strings.Repeat("  ", p.indent)
	if p.item {
		indent = strings.Repeat("  ", p.indent-1) + "- "
	}
	if !active {
		indent = "#" + indent
	}
	e.WriteString(indent + text + "\n")
}

func inline(v reflect.Value) string {
	node := toNode(v)
	node.Style = yaml.FlowStyle
	out, err := yaml.Marshal(node)
	if err != nil {
		return `""` // cannot happen for scalars, or lists and maps of them
	}
	return strings.TrimSpace(string(out))
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxFileBytes = 1 << 20
	maxFileNodes = 100_000 // with aliases expanded, so that a small file cannot expand to a huge one
)

// fileDecoder copies a YAML document into a Config and rejects unknown keys. It walks the nodes
// itself because the YAML library's strict mode (KnownFields) reports Go types instead of paths,
// cannot decode nodes and loses line numbers.
type fileDecoder struct {
	*report
	nodes int
}

// decodeFile reads one YAML document into c. Unknown and repeated keys are problems. null keeps the
// default.
func decodeFile(r *report, content []byte, c *Config) {
	if len(content) > maxFileBytes {
		r.add("", fmt.Sprintf("%s is longer than %s; want a configuration file", r.file, Size(maxFileBytes)))
		return
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return
	}
	if err == nil {
		var second yaml.Node
		if err = decoder.Decode(&second); errors.Is(err, io.EOF) {
			(&fileDecoder{report: r}).value("", document.Content[0], reflect.ValueOf(c).Elem())
			return
		}
	}
	r.add("", r.file+": "+syntaxError(err))
}

func syntaxError(err error) string {
	if err == nil {
		return "holds more than one YAML document; want one"
	}
	text := err.Error()
	if strings.Contains(text, "alphabetic or numeric") { // in the name of an alias
		text += ` (a text that starts with * needs quotes: "*")`
	}
	return text
}

// value copies node into v, which already holds the default.
func (d *fileDecoder) value(path string, node *yaml.Node, v reflect.Value) {
	d.nodes++
	if d.nodes > maxFileNodes {
		d.add("", d.file+fmt.Sprintf(" holds more than %d values; want fewer", maxFileNodes))
		return
	}
	if path != "" {
		d.lines[path] = node.Line
		delete(d.lost, path) // remove an earlier guess that this key was mistyped
	}
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if isNull(node) {
		delete(d.lines, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(path, node, v)
	case reflect.Map:
		d.table(path, node, v)
	case reflect.Slice:
		d.list(path, node, v)
	default:
		d.scalar(path, node, v)
	}
}

// isNull reports whether a key has no value, which counts as absent.
func isNull(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null"
}

func (d *fileDecoder) scalar(path string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.ScalarNode {
		d.lose(path, "is a "+kindName(node)+"; want a single value")
		return
	}
	if want := setScalar(v, node.Value); want != "" {
		d.bad(path, node.Value, want)
	}
}

func (d *fileDecoder) mapping(path string, node *yaml.Node, v reflect.Value) {
	fields := yamlFields(v.Type())
	for key, value := range d.pairs(path, node) {
		at := join(path, key.Value)
		i, ok := fields[key.Value]
		if !ok {
			d.unknown(at, key, fields)
			continue
		}
		if isNull(value) {
			delete(d.lost, at)
			continue
		}
		d.value(at, value, v.Field(i))
	}
}

// unknown explains an unknown key. It never repeats the value of a key that looks like a secret's.
func (d *fileDecoder) unknown(at string, key *yaml.Node, fields map[string]int) {
	d.lines[at] = key.Line
	if _, secret := fields[key.Value+"_env"]; secret {
		hash := ""
		if _, hashed := fields[key.Value+"_sha256"]; hashed {
			hash = fmt.Sprintf(", or %s_sha256: HASH", key.Value)
		}
		d.add(at, fmt.Sprintf("is in the file; want %s_env: NAME (an environment variable) or %s_file: PATH%s, to keep the secret out of the file", key.Value, key.Value, hash))
		return
	}
	names := sortedKeys(fields)
	near := nearest(key.Value, names)
	secret := key.Value[strings.LastIndexByte(key.Value, '_')+1:] + "_env" // suggests key_env for api_key
	if _, ok := fields[secret]; ok && len(near) == 0 {
		near = []string{secret}
	}
	if question, ok := guess(near); ok {
		d.add(at, "is not a known key; "+question)
		for _, name := range near {
			if meant := join(parent(at), name); d.lines[meant] == 0 { // the intended key has not been read yet
				d.lost[meant] = true
			}
		}
		return
	}
	d.add(at, "is not a known key; want one of "+strings.Join(names, ", "))
}

func (d *fileDecoder) table(path string, node *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for key, value := range d.pairs(path, node) {
		element := newElement(v.Type().Elem())
		d.value(join(path, key.Value), value, element)
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	}
}

func (d *fileDecoder) list(path string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.lose(path, "is a "+kindName(node)+`; want a list, such as [a, b]`)
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, 0)
	for i, item := range node.Content {
		element := newElement(v.Type().Elem())
		d.value(path+"["+strconv.Itoa(i)+"]", item, element)
		list = reflect.Append(list, element)
		if d.nodes > maxFileNodes {
			return
		}
	}
	v.Set(list)
}

// pairs yields the keys and values of a mapping, each key once.
func (d *fileDecoder) pairs(path string, node *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if node.Kind != yaml.MappingNode {
			d.lose(path, "is a "+kindName(node)+"; want key: value pairs")
			return
		}
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			if key.Kind != yaml.ScalarNode {
				d.add(path, fmt.Sprintf("has a %s as a key in line %d; want a name", kindName(key), key.Line))
				continue
			}
			if line, twice := first[key.Value]; twice {
				d.add(join(path, key.Value), fmt.Sprintf("is set twice, in lines %d and %d; want it once", line, key.Line))
				continue
			}
			first[key.Value] = key.Line
			if d.nodes > maxFileNodes || !yield(key, value) {
				return
			}
		}
	}
}

// defaulter is an element of a list or map whose fields have defaults.
type defaulter interface{ setDefaults() }

func newElement(t reflect.Type) reflect.Value {
	element := reflect.New(t)
	if d, ok := element.Interface().(defaulter); ok {
		d.setDefaults()
	}
	return element.Elem()
}

func yamlFields(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			fields[key] = i
		}
	}
	return fields
}

// join appends a step to a path. It quotes keys that are long or not printable, so that each
// problem stays on one line.
func join(path, key string) string {
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == '"' || !strconv.IsPrint(c) }) {
		key = shown(key)
	}
	if len(key) > maxShownValue {
		key = shown(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "list"
	default:
		return "single value"
	}
}

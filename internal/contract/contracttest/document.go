// Package contracttest checks real answers and messages against the documents of internal/contract.
// It is stricter than the documents. An undocumented member is an error unless additional members
// are allowed.
package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/genbus/genbus/internal/contract"
)

// address identifies the document to the compiler, which loads nothing from it.
const address = "genbus:///document.json"

// Document is an OpenAPI or AsyncAPI document. It is safe for concurrent use.
type Document struct {
	root any

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// Load parses a document.
func Load(raw []byte) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft7)
	d.compiler.AssertFormat()
	strict, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	tighten(strict, "")
	return d, d.compiler.AddResource(address, strict)
}

// tighten converts OpenAPI 3.0 schemas to JSON Schema, where null is a type, and forbids
// undocumented members.
func tighten(v any, name string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			tighten(e, "")
		}
	case map[string]any:
		for name, e := range v {
			tighten(e, name)
		}
		if name == "properties" || name == "example" || name == "examples" {
			return // not a schema
		}
		if v["properties"] != nil && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		if v["nullable"] == true {
			contract.AllowNull(v)
		}
	}
}

// Find returns the value at a place in the document, following references. It returns nil if there
// is none.
func (d *Document) Find(place ...string) any {
	v, _ := d.resolve(place)
	return v
}

// resolve returns the value at a place, and that place with all references resolved.
func (d *Document) resolve(place []string) (v any, found []string) {
	v = d.root
	for i := 0; ; i++ {
		for {
			m, _ := v.(map[string]any)
			to, ok := m["$ref"].(string)
			if !ok {
				break
			}
			v, found = d.resolve(strings.Split(strings.TrimPrefix(to, "#/"), "/"))
		}
		if i == len(place) {
			return v, found
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, nil
		}
		v, found = m[place[i]], append(slices.Clone(found), place[i])
	}
}

// Check validates JSON against the schema at a place of the document.
func (d *Document) Check(data []byte, place ...string) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%.200q: %w", data, err)
	}
	_, found := d.resolve(place)
	schema, err := d.schema(pointer(found))
	if err != nil {
		return fmt.Errorf("the schema at %s: %w", strings.Join(place, " "), err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%.300s is not as %s: %w", data, strings.Join(place, " "), err)
	}
	return nil
}

// CheckValue is like Check but takes a decoded value, such as an example in the document.
func (d *Document) CheckValue(value any, place ...string) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return d.Check(data, place...)
}

func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(address + "#" + pointer)
	if err != nil {
		return nil, err
	}
	d.compiled[pointer] = s
	return s, nil
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D")

// pointer returns a JSON pointer as a URL fragment.
func pointer(place []string) string {
	var b strings.Builder
	for _, name := range place {
		b.WriteString("/" + escaper.Replace(name))
	}
	return b.String()
}

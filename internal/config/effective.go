package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Effective returns the whole configuration as YAML, including defaults. Instead of secrets it
// shows the variables or files that hold them.
func (c *Config) Effective() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(toNode(reflect.ValueOf(c).Elem())), encoder.Close()); err != nil {
		return nil, fmt.Errorf("write the effective configuration: %w", err)
	}
	return out.Bytes(), nil
}

// toNode converts a value to YAML, with keys in the order of the struct and scalars formatted by
// formatScalar.
func toNode(v reflect.Value) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if key := v.Type().Field(i).Tag.Get("yaml"); key != "" && key != "-" {
				node.Content = append(node.Content, textNode(key), toNode(v.Field(i)))
			}
		}
	case reflect.Map:
		for _, key := range sortedKeys(mapOf(v)) {
			node.Content = append(node.Content, textNode(key), toNode(v.MapIndex(reflect.ValueOf(key))))
		}
	case reflect.Slice:
		node.Kind = yaml.SequenceNode
		for i := range v.Len() {
			node.Content = append(node.Content, toNode(v.Index(i)))
		}
	case reflect.String:
		return textNode(v.String())
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: formatScalar(v)}
	}
	return node
}

// textNode quotes text that YAML would read as something else, such as * or on.
func textNode(text string) *yaml.Node {
	var node yaml.Node
	node.SetString(text)
	return &node
}

func mapOf(v reflect.Value) map[string]struct{} {
	keys := make(map[string]struct{}, v.Len())
	for _, key := range v.MapKeys() {
		keys[key.String()] = struct{}{}
	}
	return keys
}

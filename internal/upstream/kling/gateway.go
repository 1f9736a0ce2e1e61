package kling

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// forGateway gives the body as a gateway wants it: the model under "model" too,
// and the vendor's parameters within metadata too, because the gateway drops
// those that it does not know itself. What metadata says already wins; metadata
// that is no object is replaced, as the gateway would not read it. The result is
// the same for every submission of a body. Errors are *body.FieldError.
func forGateway(raw []byte) ([]byte, error) {
	given, err := members(raw)
	if err != nil {
		return nil, err
	}
	var metadata body.Object
	if object := objectIn(given["metadata"]); object != nil {
		if err := metadata.Merge(object); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !gatewayReads(name) && !metadata.Has(name) {
			metadata.Set(name, given[name])
		}
	}
	out, err := body.SetMember(raw, "metadata", metadata.JSON())
	if err != nil || given[modelMember] == nil {
		return out, err
	}
	return body.SetMember(out, "model", given[modelMember])
}

// gatewayReads reports whether a gateway takes the member where it stands.
func gatewayReads(name string) bool {
	switch name {
	case modelMember, "model", "prompt", "image", "metadata":
		return true
	}
	return false
}

// objectIn gives a JSON object, also one that stands in a string as clients of
// gateways write it, and nil for everything else.
func objectIn(value jsontext.Value) []byte {
	if value.Kind() == '"' {
		value = jsontext.Value(textOf(value))
	}
	if value.Kind() != '{' || !value.IsValid(lax.Options) {
		return nil
	}
	return value
}

// members gives the top-level members of a body by name. Errors are
// *body.FieldError.
func members(raw []byte) (map[string]jsontext.Value, error) {
	if _, err := body.Header(raw); err != nil {
		return nil, err
	}
	var m map[string]jsontext.Value
	err := json.Unmarshal(raw, &m, lax.Options)
	return m, err
}

// textOf gives the text of a JSON string, and "" for everything else.
func textOf(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	// The error says that something was replaced by U+FFFD, which is intended.
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}

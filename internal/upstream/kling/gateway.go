package kling

import (
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
	var metadata body.Object
	if object := objectIn(body.Member(raw, "metadata")); object != nil {
		if err := metadata.Merge(object); err != nil {
			return nil, err
		}
	}
	// The route has chosen the model, and nothing within metadata may choose another.
	for _, name := range []string{modelMember, "model"} {
		metadata.Drop(name)
	}
	err := body.EachMember(raw, func(name string, value []byte) error {
		if !gatewayReads(name) && !metadata.Has(name) {
			metadata.Set(name, value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out, err := body.SetMember(raw, "metadata", metadata.JSON())
	model := body.Member(raw, modelMember)
	if err != nil || model == nil {
		return out, err
	}
	return body.SetMember(out, "model", model)
}

// gatewayReads reports whether a gateway takes the member where it is.
func gatewayReads(name string) bool {
	switch name {
	case modelMember, "model", "prompt", "image", "metadata":
		return true
	}
	return false
}

// objectIn returns a JSON object, also one inside a string as clients of
// gateways write it, and nil for everything else.
func objectIn(value jsontext.Value) []byte {
	if value.Kind() == '"' {
		value = jsontext.Value(body.Text(value))
	}
	if value.Kind() != '{' || !value.IsValid(lax.Options) {
		return nil
	}
	return value
}

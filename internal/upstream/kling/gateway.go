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
func forGateway(d body.Document) (body.Document, error) {
	var metadata body.Object
	if err := mergeMetadata(&metadata, d.Member("metadata")); err != nil {
		return d, err
	}
	// The route has chosen the model, and genbus the task's own id: nothing within metadata may
	// choose another.
	for _, name := range []string{modelMember, "model", externalMember} {
		metadata.Drop(name)
	}
	for name, value := range d.Members() {
		if !gatewayReads(name) && !metadata.Has(name) {
			metadata.Set(name, value)
		}
	}
	out := d.With("metadata", metadata.JSON())
	if model := d.Member(modelMember); model != nil {
		out = out.With("model", model)
	}
	return out, out.Err()
}

// gatewayReads reports whether a gateway takes the member where it is.
func gatewayReads(name string) bool {
	switch name {
	case modelMember, "model", "prompt", "image", "metadata":
		return true
	}
	return false
}

// mergeMetadata adds the members of an object to o, which is empty: also those of one
// inside a string, as clients of gateways write it, which is checked here. Everything
// else is left out.
func mergeMetadata(o *body.Object, value jsontext.Value) error {
	switch value.Kind() {
	case '{':
		o.Merge(body.Trusted(value))
	case '"':
		text := jsontext.Value(body.Text(value))
		if err := o.Add("", text); err != nil && text.Kind() == '{' && text.IsValid(lax.Options) {
			return err
		}
	}
	return nil
}

package kling

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// forGateway returns the body in the form that gateways expect. It copies the model to "model" and
// the vendor's parameters to metadata, because a gateway drops members that it does not know.
// Existing members of metadata take precedence. Metadata that is not an object is replaced, because
// the gateway would not read it. The result is the same for every submission of a body. Errors are
// *body.FieldError.
func forGateway(d body.Document) (body.Document, error) {
	var metadata body.Object
	if err := mergeMetadata(&metadata, d.Member("metadata")); err != nil {
		return d, err
	}
	// The route chose the model and genbus the task's own ID, so metadata must not override them.
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

// gatewayReads reports whether a gateway reads the member at the top level.
func gatewayReads(name string) bool {
	switch name {
	case modelMember, "model", "prompt", "image", "metadata":
		return true
	}
	return false
}

// mergeMetadata adds the members of the object in value to o, which is empty. The object may be
// encoded as a string, as clients of gateways write it. In that case it is also checked. Other
// values are ignored.
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

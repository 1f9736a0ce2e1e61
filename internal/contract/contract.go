// Package contract describes genbus to tools and people: every HTTP path as
// OpenAPI 3.0, everything on NATS as AsyncAPI 3.0, and a page that shows both. It
// serves these and nothing else; what it says is held to the code by tests.
package contract

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/genbus/genbus/internal/subject"
)

// Options are what the documents depend on.
type Options struct {
	// Segments are the first segments of the vendors' paths, by protocol; one that
	// is missing is the vendor's own.
	Segments map[string]string
	// PublicURL is the address at which clients reach HTTP; empty for the one that
	// the document came from.
	PublicURL string
	// Names are the subjects and streams.
	Names subject.Space
}

// data/messages.json are the schemas of the Protobuf messages, written by
// TestMessagesAreTheProtos: at run time the comments are gone.
//
//go:embed data openapi page
var files embed.FS

// object is a JSON object of a document.
type object = map[string]any

// messages gives the schemas of all Protobuf messages: by their full name those
// of the canonical JSON form, by their bare name those of events.
func messages() (object, error) {
	raw, err := files.ReadFile("data/messages.json")
	if err != nil {
		return nil, err
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("data/messages.json: %w", err)
	}
	return out, nil
}

// write gives a document as JSON. People read it, so <, > and & stand as they are.
func write(document object) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// at gives the object below some names, which is made where it is missing.
func at(o object, names ...string) object {
	for _, name := range names {
		next, ok := o[name].(object)
		if !ok {
			next = object{}
			o[name] = next
		}
		o = next
	}
	return o
}

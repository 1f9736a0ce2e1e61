// Package contract describes genbus's API to tools and people: HTTP as OpenAPI 3.0, NATS as
// AsyncAPI 3.0, and a page that shows both. Tests keep the documents in line with the code.
package contract

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/genbus/genbus/internal/subject"
)

// Options are the settings that the documents depend on.
type Options struct {
	// Segments maps protocols to the first path segments of the vendors' APIs. The default is the
	// vendor's own segment.
	Segments map[string]string
	// PublicURL is the HTTP address for clients. If it is empty, the document's own address
	// applies.
	PublicURL string
	// Names are the subjects and streams.
	Names subject.Space
}

// data/messages.json contains the schemas of the Protobuf messages. TestMessagesAreTheProtos writes
// it, because the comments in .proto files are not available at run time.
//
//go:embed data openapi page
var files embed.FS

// object is a JSON object in a document.
type object = map[string]any

// messages returns the schemas of all Protobuf messages. A schema under a full name describes
// canonical JSON, and one under a bare name describes the form in events.
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

// write encodes a document as JSON without escaping <, > and &, because people read it.
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

// at returns the object at a path of names, creating it if necessary.
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

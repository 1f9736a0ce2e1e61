package contract

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/genbus/genbus/internal/protocol"
)

// methods lists the HTTP methods in the document.
var methods = []string{"get", "head", "post", "delete"}

// OpenAPI returns the document of every HTTP path. It uses version 3.0.3, which all client
// generators support. It fails only if the embedded files contain a mistake.
func OpenAPI(o Options) ([]byte, error) {
	document, err := parts()
	if err != nil {
		return nil, err
	}
	if o.PublicURL != "" {
		document["servers"] = []any{object{"url": strings.TrimRight(o.PublicURL, "/")}}
	}
	if err := addMessages(document); err != nil {
		return nil, err
	}
	for where, item := range at(document, "paths") {
		for _, method := range methods {
			operation, ok := item.(object)[method].(object)
			if !ok {
				continue
			}
			if err := finish(document, method, operation); err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, where, err)
			}
		}
	}
	document["paths"] = renamed(at(document, "paths"), o.Segments)
	document["x-genbus-errors"] = errorTable()
	prune(document)
	return write(document)
}

// parts merges the files below openapi.
func parts() (object, error) {
	document := object{}
	names, err := fs.Glob(files, "openapi/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var part object
		if err := yaml.Unmarshal(raw, &part); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(name), err)
		}
		if err := merge(document, part); err != nil {
			return nil, fmt.Errorf("%s: %w", path.Base(name), err)
		}
	}
	return document, nil
}

// merge adds the members of from to into, recursively for objects. Other duplicates are an error.
func merge(into, from object) error {
	for name, value := range from {
		there, both := into[name]
		left, ok := there.(object)
		right, also := value.(object)
		switch {
		case !both:
			into[name] = value
		case !ok || !also:
			return fmt.Errorf("%s is also in another file", name)
		default:
			if err := merge(left, right); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// addMessages adds the Protobuf schemas as they appear in HTTP answers, without the execution.
func addMessages(document object) error {
	all, err := messages()
	if err != nil {
		return err
	}
	for _, job := range []string{"genbus.v1.VideoTask", "genbus.v1.Chat"} {
		delete(at(all, job, "properties"), "execution")
	}
	return merge(at(document, "components", "schemas"), all)
}

// finish adds the errors that an operation lists by name and the X-Request-Id header of every
// answer.
func finish(document object, method string, operation object) error {
	if err := addErrors(document, method, operation); err != nil {
		return err
	}
	for _, answer := range at(operation, "responses") {
		if response, ok := answer.(object); ok && response["$ref"] == nil {
			at(response, "headers")["X-Request-Id"] = object{"$ref": "#/components/headers/X-Request-Id"}
		}
	}
	return nil
}

// renamed returns the paths with the configured first segments.
func renamed(paths object, segments map[string]string) object {
	out := make(object, len(paths))
	for where, item := range paths {
		out[rename(where, segments)] = item
	}
	return out
}

func rename(where string, segments map[string]string) string {
	for _, p := range protocol.All() {
		if p.Segment == "" || segments[p.Name] == "" {
			continue
		}
		if rest, ok := strings.CutPrefix(where, "/"+p.Segment+"/"); ok {
			return "/" + segments[p.Name] + "/" + rest
		}
	}
	return where
}

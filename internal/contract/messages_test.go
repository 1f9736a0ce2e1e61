package contract

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var update = flag.Bool("update", false, "write data/messages.json, docs/openapi.json and docs/asyncapi.json")

// wirePrefix begins the schema names of messages in canonical JSON. Names without it are for the
// form of events.
const wirePrefix = "genbus.v1."

// TestMessagesAreTheProtos checks that data/messages.json matches proto/, including the comments.
func TestMessagesAreTheProtos(t *testing.T) {
	t.Parallel()
	all := map[string]any{}
	for _, file := range protos(t) {
		messages := file.Messages()
		for i := range messages.Len() {
			m := messages.Get(i)
			all[wirePrefix+string(m.Name())] = form{prefix: wirePrefix}.message(m)
		}
	}
	for _, name := range []string{"VideoTaskEvent", "ChatEvent", "ChatChunk", "ChatGap", "UsageEvent"} {
		plain(t, name, all)
	}
	data, err := write(all)
	if err != nil {
		t.Fatal(err)
	}
	SameFile(t, "data/messages.json", data)
}

// protos compiles proto/ with its comments.
func protos(t *testing.T) []protoreflect.FileDescriptor {
	t.Helper()
	const dir = "../../proto"
	files, err := filepath.Glob(dir + "/genbus/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatalf("no .proto files: %v", err)
	}
	for i, file := range files {
		files[i] = filepath.ToSlash(strings.TrimPrefix(file, dir+"/"))
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := c.Compile(context.Background(), files...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]protoreflect.FileDescriptor, 0, len(compiled))
	for _, f := range compiled {
		out = append(out, f)
	}
	return out
}

// plain adds a message in the form of events, and the messages that it refers to.
func plain(t *testing.T, name string, all map[string]any) {
	t.Helper()
	for _, file := range protos(t) {
		if m := file.Messages().ByName(protoreflect.Name(name)); m != nil {
			form{}.add(m, all)
			return
		}
	}
	t.Errorf("there is no message %s", name)
}

// form is the JSON form of messages: canonical with a prefix, otherwise as in
// internal/body.EventJSON.
type form struct{ prefix string }

// add adds a message in the form of events under its bare name.
func (f form) add(m protoreflect.MessageDescriptor, all map[string]any) {
	if _, there := all[string(m.Name())]; there {
		return
	}
	all[string(m.Name())] = f.message(m)
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		if to := field.Message(); to != nil && !field.IsMap() && to.Name() != "Timestamp" && to.Name() != "Execution" {
			f.add(to, all)
		}
	}
}

func (f form) message(m protoreflect.MessageDescriptor) map[string]any {
	properties := map[string]any{}
	out := map[string]any{"type": "object", "description": comment(m), "properties": properties}
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		name := string(field.Name())
		switch {
		case f.prefix != "":
			properties[name] = f.field(field)
		case name == "extra_json":
			out["additionalProperties"] = true
		case name == "execution":
			properties["phase"] = described(field.Message().Fields().ByName("phase"), map[string]any{
				"type": "string", "enum": words(field.Message().Fields().ByName("phase").Enum()),
			})
		case strings.HasSuffix(name, "_json"):
			properties[strings.TrimSuffix(name, "_json")] = described(field, map[string]any{})
		case name == "blocks":
			properties[name] = described(field, map[string]any{"type": "array", "items": map[string]any{}})
		default:
			properties[name] = f.field(field)
		}
	}
	return out
}

func (f form) field(field protoreflect.FieldDescriptor) map[string]any {
	switch {
	case field.IsMap():
		return described(field, map[string]any{"type": "object", "additionalProperties": f.value(field.MapValue())})
	case field.IsList():
		return described(field, map[string]any{"type": "array", "items": f.value(field)})
	default:
		return described(field, f.value(field))
	}
}

// described adds the field's comment. OpenAPI 3.0 ignores siblings of $ref, so a reference is
// wrapped in allOf.
func described(field protoreflect.FieldDescriptor, schema map[string]any) map[string]any {
	if _, refers := schema["$ref"]; refers {
		schema = map[string]any{"allOf": []any{schema}}
	}
	schema["description"] = comment(field)
	return schema
}

func (f form) value(field protoreflect.FieldDescriptor) map[string]any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		switch field.Message().FullName() {
		case "google.protobuf.Timestamp":
			return map[string]any{"type": "string", "format": "date-time"}
		case "google.protobuf.Duration":
			return map[string]any{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`}
		}
		return map[string]any{"$ref": "#/components/schemas/" + f.prefix + string(field.Message().Name())}
	case protoreflect.EnumKind:
		return map[string]any{"type": "string", "enum": f.values(field.Enum())}
	case protoreflect.BytesKind:
		return map[string]any{"type": "string", "format": "byte"}
	case protoreflect.StringKind:
		return map[string]any{"type": "string"}
	case protoreflect.BoolKind:
		return map[string]any{"type": "boolean"}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return map[string]any{"type": "number", "format": "double"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		if f.prefix != "" {
			return map[string]any{"type": "string", "format": field.Kind().String()}
		}
		return map[string]any{"type": "integer", "format": "int64"}
	default:
		return map[string]any{"type": "integer", "format": "int32"}
	}
}

func (f form) values(e protoreflect.EnumDescriptor) (names []any) {
	if f.prefix == "" {
		return words(e)
	}
	for i := range e.Values().Len() {
		names = append(names, string(e.Values().Get(i).Name()))
	}
	return names
}

// words returns an enum's values in readable form, without the unspecified value, which is never
// written.
func words(e protoreflect.EnumDescriptor) (names []any) {
	first := string(e.Values().Get(0).Name())
	prefix := strings.TrimSuffix(first, "UNSPECIFIED")
	for i := 1; i < e.Values().Len(); i++ {
		names = append(names, strings.ToLower(strings.TrimPrefix(string(e.Values().Get(i).Name()), prefix)))
	}
	return names
}

// comment returns the leading comment as one paragraph.
func comment(d protoreflect.Descriptor) string {
	return strings.Join(strings.Fields(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments), " ")
}

// SameFile compares a file with generated content, or writes it with -update.
func SameFile(t *testing.T, name string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not up to date; run `go test ./internal/contract -update`:\n%s", name, cmp.Diff(strings.Split(string(got), "\n"), strings.Split(string(want), "\n")))
	}
}

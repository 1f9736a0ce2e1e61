package httpapi

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// messageBody is the JSON body of a gateway call. If the gateway refuses it, the error handler reads
// it again to say why, because the gateway's own errors are those of its JSON library.
type messageBody struct {
	*bytes.Reader
	raw     []byte
	message protoreflect.MessageDescriptor
}

// Close does nothing.
func (*messageBody) Close() error { return nil }

// checkMessageBody returns an error unless raw is empty or one JSON object within the limits.
func checkMessageBody(m protoreflect.MessageDescriptor, raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil // an empty message
	}
	if err := body.Parse(raw).Err(); err != nil {
		return errcode.New(body.Fault(err).Code, "%w; this path takes a %s", err, m.FullName())
	}
	return nil
}

// misfit returns why raw, a JSON object, is not the JSON of a message that path takes.
func misfit(path string, m protoreflect.MessageDescriptor, raw []byte) error {
	field, wrong := badMember(m, fieldNames(m, path), raw)
	if wrong == "" {
		wrong = fmt.Sprintf("does not fit %s, which this path takes", m.FullName())
	}
	return errcode.Invalid([]errcode.Violation{{Field: errcode.Clip(field, 256), Description: wrong}})
}

// badMember returns the path of the first member of an object that the parser of m refuses, and
// what is wrong with it. The parser decides, so that nothing is refused that it accepts. names are
// the members to recommend.
func badMember(m protoreflect.MessageDescriptor, names []string, raw []byte) (path, wrong string) {
	var seen []protoreflect.FieldDescriptor
	for name, value := range body.Trusted(raw).Members() {
		f := fieldNamed(m, name)
		if f == nil {
			return name, unknown(names, "members")
		}
		for _, other := range seen {
			if other == f {
				return name, "is given more than once"
			}
			if o := f.ContainingOneof(); o != nil && o == other.ContainingOneof() {
				return name, fmt.Sprintf("cannot be used with %s", other.Name())
			}
		}
		if string(value) != "null" {
			seen = append(seen, f)
		}
		if path, wrong := badValue(f, value); wrong != "" {
			return name + path, wrong
		}
	}
	return "", ""
}

// badValue is like badMember for the value of a field.
func badValue(f protoreflect.FieldDescriptor, value []byte) (path, wrong string) {
	if fits(f, value) {
		return "", ""
	}
	kind := jsontext.Value(value).Kind()
	switch {
	case f.IsMap() && kind == '{':
		for name, v := range body.Trusted(value).Members() {
			if !fits(f, object(name, v)) {
				return "." + name, ruleOf(f.MapValue())
			}
		}
	case f.IsMap():
		return "", "must be an object"
	case f.IsList() && kind == '[':
		c, i := body.NewCursor(value), 0
		for range c.Elements() {
			element := c.Value()
			if !fits(f, slices.Concat([]byte("["), element, []byte("]"))) {
				path, wrong := badElement(f, element)
				return fmt.Sprintf("[%d]%s", i, path), wrong
			}
			i++
		}
	case f.IsList():
		return "", "must be an array"
	}
	return badElement(f, value)
}

// badElement is like badValue for a single value.
func badElement(f protoreflect.FieldDescriptor, value []byte) (path, wrong string) {
	if f.Message() != nil && jsontext.Value(value).Kind() == '{' {
		if path, wrong = badMember(f.Message(), fieldNames(f.Message(), ""), value); wrong != "" {
			return "." + path, wrong
		}
	}
	return "", ruleOf(f)
}

// fits reports whether the parser accepts a value of a field.
func fits(f protoreflect.FieldDescriptor, value []byte) bool {
	return protojson.Unmarshal(object(string(f.Name()), value), dynamicpb.NewMessage(f.ContainingMessage())) == nil
}

// object returns a JSON object with one member.
func object(name string, value []byte) []byte {
	var o body.Object
	o.Set(name, value)
	return o.JSON()
}

// fieldNames returns the names of a message's fields, except those that are parameters of path.
func fieldNames(m protoreflect.MessageDescriptor, path string) (names []string) {
	for i := range m.Fields().Len() {
		if name := string(m.Fields().Get(i).Name()); !strings.Contains(path, "{"+name+"}") {
			names = append(names, name)
		}
	}
	return names
}

package body

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/genbus/genbus/internal/errcode"
)

// Misfit describes why raw, a JSON object, is not the JSON of a message. names are the members to
// recommend.
func Misfit(m protoreflect.MessageDescriptor, names []string, raw []byte) errcode.Violation {
	field, wrong := badMember(m, names, raw)
	if wrong == "" {
		wrong = fmt.Sprintf("does not fit %s", m.FullName())
	}
	return errcode.Violation{Field: errcode.Clip(field, 256), Description: wrong}
}

// badMember returns the path of the first member of an object that the parser of m refuses, and
// what is wrong with it. It asks the parser about each member, so it accepts whatever the parser
// accepts. names are the members to recommend.
func badMember(m protoreflect.MessageDescriptor, names []string, raw []byte) (path, wrong string) {
	var seen []protoreflect.FieldDescriptor
	for name, value := range Trusted(raw).Members() {
		f := FieldNamed(m, name)
		if f == nil {
			return name, UnknownName(names, "members")
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
		for name, v := range Trusted(value).Members() {
			if !fits(f, withMember(name, v)) {
				return "." + name, FieldRule(f.MapValue())
			}
		}
	case f.IsMap():
		return "", "must be an object"
	case f.IsList() && kind == '[':
		c, i := NewCursor(value), 0
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
		if path, wrong = badMember(f.Message(), FieldNames(f.Message()), value); wrong != "" {
			return "." + path, wrong
		}
	}
	return "", FieldRule(f)
}

// fits reports whether the parser accepts a value of a field.
func fits(f protoreflect.FieldDescriptor, value []byte) bool {
	return protojson.Unmarshal(withMember(string(f.Name()), value), dynamicpb.NewMessage(f.ContainingMessage())) == nil
}

// withMember returns a JSON object with one member.
func withMember(name string, value []byte) []byte {
	var o Object
	o.Set(name, value)
	return o.JSON()
}

// FieldNames returns the names of a message's fields.
func FieldNames(m protoreflect.MessageDescriptor) (names []string) {
	for i := range m.Fields().Len() {
		names = append(names, string(m.Fields().Get(i).Name()))
	}
	return names
}

// FieldNamed finds a field by its name or by its JSON name (pageSize), as protojson does.
func FieldNamed(m protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := m.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return m.Fields().ByJSONName(name)
}

// UnknownName describes a name that is not among names, which are of a kind such as members.
func UnknownName(names []string, kind string) string {
	if len(names) == 0 {
		return "is unknown; this path takes no " + kind
	}
	return "is unknown; use one of " + strings.Join(names, ", ")
}

// StatusRule describes valid status filters in a violation.
const StatusRule = "must be JOB_STATUS_QUEUED, JOB_STATUS_IN_PROGRESS, JOB_STATUS_COMPLETED, JOB_STATUS_FAILED or JOB_STATUS_CANCELLED"

// Uint64Rule describes valid values of a uint64 field.
const Uint64Rule = "must be an integer from 0 to 18446744073709551615"

// FieldRule describes valid values of a parameter, or of a member of a message.
func FieldRule(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "must be true or false"
	case protoreflect.EnumKind:
		return StatusRule // the only enum in requests
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Timestamp":
			return "must be a time such as 2026-01-31T12:00:00Z"
		case "google.protobuf.Duration":
			return "must be a duration in seconds such as 7200s"
		}
		return "must be an object"
	case protoreflect.StringKind:
		return "must be a string of valid Unicode"
	case protoreflect.BytesKind:
		return "must be a string in Base64"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "must be a number"
	case protoreflect.Int32Kind:
		return "must be an integer from 0 to 2147483647"
	case protoreflect.Uint64Kind:
		return Uint64Rule
	default:
		return "must be an integer"
	}
}

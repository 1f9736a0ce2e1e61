package natsreq

import (
	"bytes"
	"strings"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// Unmarshal decodes a request about existing jobs or models into m. Without a content-type header,
// or with application/protobuf, data is the message. With application/json it is an object with the
// names of m's fields. Empty data is an empty request. Errors are *errcode.Error.
func Unmarshal(m proto.Message, header nats.Header, data []byte) error {
	json, err := IsJSON(header)
	switch {
	case err != nil:
		return err
	case json:
		return fromJSON(m, data)
	case proto.Unmarshal(data, m) != nil:
		return unreadable(m, data)
	default:
		return nil
	}
}

// fromJSON decodes one member at a time, so that an error can name it.
func fromJSON(m proto.Message, data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := body.Parse(data)
	if err := d.Err(); err != nil {
		return errcode.New(body.Fault(err).Code, "%w; this subject takes a %s", err, m.ProtoReflect().Descriptor().FullName())
	}
	fields := m.ProtoReflect().Descriptor().Fields()
	for name, value := range d.Members() {
		f := fields.ByName(protoreflect.Name(name))
		if f == nil {
			return invalidMember(name, "is unknown; use one of "+fieldNames(fields))
		}
		if f.Enum() != nil {
			value = statusName(value)
		}
		var o body.Object
		o.Set(name, value)
		one := m.ProtoReflect().New().Interface()
		if protojson.Unmarshal(o.JSON(), one) != nil {
			return invalidMember(name, rule(f))
		}
		proto.Merge(m, one)
	}
	return nil
}

// statusName converts a status word, such as "completed", to the name in the enum.
func statusName(value []byte) []byte {
	const prefix = `"JOB_STATUS_`
	if value[0] != '"' || bytes.HasPrefix(value, []byte(prefix)) {
		return value
	}
	return append([]byte(prefix), bytes.ToUpper(value[1:])...)
}

// rule describes the valid values of a field.
func rule(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.EnumKind:
		return "must be queued, in_progress, completed, failed or cancelled"
	case protoreflect.MessageKind: // all are timestamps
		return "must be a time such as 2026-01-31T12:00:00Z"
	case protoreflect.StringKind:
		return "must be a string"
	default:
		return "must be an integer"
	}
}

func fieldNames(fields protoreflect.FieldDescriptors) string {
	var names []string
	for i := range fields.Len() {
		names = append(names, string(fields.Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

func invalidMember(name, description string) error {
	return errcode.Invalid([]errcode.Violation{{Field: errcode.Clip(name, 64), Description: description}})
}

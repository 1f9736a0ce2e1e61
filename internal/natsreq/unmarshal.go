package natsreq

import (
	"bytes"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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

// fromJSON decodes an object with the members of m, whose statuses may be words, such as "completed".
func fromJSON(m proto.Message, data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := body.Parse(data)
	fields := m.ProtoReflect().Descriptor()
	if err := d.Err(); err != nil {
		return errcode.New(body.Fault(err).Code, "%w; this subject takes a %s", err, fields.FullName())
	}
	var o body.Object
	for name, value := range d.Members() {
		if f := body.FieldNamed(fields, name); f != nil && f.Enum() != nil {
			value = statusName(value)
		}
		o.Set(name, value)
	}
	if protojson.Unmarshal(o.JSON(), m) == nil {
		return nil
	}
	wrong := body.Misfit(fields, body.FieldNames(fields), o.JSON())
	if f := body.FieldNamed(fields, wrong.Field); f != nil && f.Enum() != nil {
		wrong.Description = "must be queued, in_progress, completed, failed or cancelled"
	}
	return errcode.Invalid([]errcode.Violation{wrong})
}

// statusName converts a status word to the name in the enum.
func statusName(value []byte) []byte {
	const prefix = `"JOB_STATUS_`
	if value[0] != '"' || bytes.HasPrefix(value, []byte(prefix)) {
		return value
	}
	return append([]byte(prefix), bytes.ToUpper(value[1:])...)
}

package httpapi

import (
	"bytes"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

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
	return errcode.Invalid([]errcode.Violation{body.Misfit(m, fieldNames(m, path), raw)})
}

// fieldNames returns the names of a message's fields, except those that are parameters of path.
func fieldNames(m protoreflect.MessageDescriptor, path string) []string {
	return slices.DeleteFunc(body.FieldNames(m), func(name string) bool { return strings.Contains(path, "{"+name+"}") })
}

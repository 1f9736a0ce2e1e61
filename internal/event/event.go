// Package event reads what genbus publishes: events and chunks in either encoding.
// It makes no messages, and knows no stream.
package event

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/subject"
)

// Decode reads a payload in either encoding. The headers tell which: a JSON event
// holds the same event as Protobuf, because JSON for readers leaves out what only
// genbus needs.
func Decode(header nats.Header, data []byte, into proto.Message) error {
	if header.Get(subject.HeaderCEDataContentType) == subject.ContentTypeJSON {
		var holder struct {
			Protobuf []byte `json:"protobuf"`
		}
		if err := json.Unmarshal(data, &holder); err != nil {
			return fmt.Errorf("JSON event: %w", err)
		}
		data = holder.Protobuf
	}
	if err := proto.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decode %s: %w", into.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

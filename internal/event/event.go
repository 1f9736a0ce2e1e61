// Package event decodes the events and chunks that genbus publishes, in either encoding.
package event

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/subject"
)

// Decode decodes a payload into a message. The header says whether it is Protobuf or JSON. A JSON
// event includes the event in Protobuf, because the readable JSON lacks fields that genbus needs.
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

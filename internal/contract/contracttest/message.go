package contracttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/genbus/genbus/gen/genbus/v1" // registers the messages by name
	"github.com/genbus/genbus/internal/subject"
)

// Message is a NATS message.
type Message struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// CheckMessage fails if the document does not allow the message's subject, headers or payload. It
// returns the ID of the message's channel.
func (d *Document) CheckMessage(m Message) (channel string, err error) {
	channels, _ := d.Find("channels").(map[string]any)
	for _, id := range slices.Sorted(maps.Keys(channels)) {
		if address, _ := d.Find("channels", id, "address").(string); addressed(address, m.Subject) {
			return id, d.checkIn(id, m)
		}
	}
	return "", fmt.Errorf("the document has no channel for %s", m.Subject)
}

// CheckReply is like CheckMessage but checks a reply to a message on channel.
func (d *Document) CheckReply(channel string, m Message) error {
	return d.checkIn(channel+"Reply", m)
}

// addressed reports whether a subject matches an address.
func addressed(address, subj string) bool {
	want, have := strings.Split(address, "."), strings.Split(subj, ".")
	if len(want) != len(have) {
		return false
	}
	for i, token := range want {
		if !strings.HasPrefix(token, "{") && token != have[i] {
			return false
		}
	}
	return true
}

func (d *Document) checkIn(channel string, m Message) error {
	name, err := d.form(channel, m)
	if err != nil {
		return err
	}
	place := []string{"components", "messages", name}
	if err := d.CheckValue(withoutJetStream(m.Header), append(place, "headers")...); err != nil {
		return fmt.Errorf("headers of %s: %w", m.Subject, err)
	}
	data := m.Data
	if !strings.HasSuffix(name, "JSON") {
		if data, err = d.readable(place, data); err != nil {
			return err
		}
	}
	if err := d.Check(data, append(place, "payload")...); err != nil {
		return fmt.Errorf("payload of %s: %w", m.Subject, err)
	}
	return nil
}

// form selects a channel's message by content type. For replies, it also considers whether the
// message is an error.
func (d *Document) form(channel string, m Message) (string, error) {
	media := subject.ContentTypeProtobuf
	for _, header := range []string{subject.HeaderContentType, subject.HeaderCEDataContentType} {
		if v := m.Header[header]; len(v) > 0 {
			media = v[0]
		}
	}
	refused := len(m.Header[subject.HeaderErrorCode]) > 0 && strings.HasSuffix(channel, "Reply")
	messages, _ := d.Find("channels", channel, "messages").(map[string]any)
	for name := range messages {
		if d.Find("components", "messages", name, "contentType") == media && strings.HasPrefix(name, "Refused") == refused {
			return name, nil
		}
	}
	return "", fmt.Errorf("the channel %s has no message of type %s", channel, media)
}

// withoutJetStream removes the headers of JetStream.
func withoutJetStream(header map[string][]string) map[string]string {
	out := map[string]string{}
	for name, values := range header {
		if !strings.HasPrefix(name, "Nats-") || strings.HasPrefix(name, "Nats-Service-") {
			out[name] = strings.Join(values, ",")
		}
	}
	return out
}

// readable converts a Protobuf payload to the JSON that its schema describes.
func (d *Document) readable(place []string, data []byte) ([]byte, error) {
	_, found := d.resolve(append(slices.Clone(place), "payload"))
	t, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(found[len(found)-1]))
	if err != nil {
		return nil, err
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Descriptor().FullName(), err)
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

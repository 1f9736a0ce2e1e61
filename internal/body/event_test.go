package body

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// filled sets every field of a message, including nested ones: text to the field's name, JSON bytes
// to an object, numbers to 1.
func filled[M proto.Message](m M) M {
	fill(m.ProtoReflect())
	return m
}

func fill(m protoreflect.Message) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString("v"))
		case f.IsList() && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message())
		case f.IsList():
			m.Mutable(f).List().Append(filledScalar(f))
		case f.Message() != nil:
			fill(m.Mutable(f).Message())
		default:
			m.Set(f, filledScalar(f))
		}
	}
}

func filledScalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(f.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("{\"x_" + string(f.Name()) + "\":\r\n 1.0}"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(2)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1)
	default:
		return protoreflect.ValueOfInt64(1)
	}
}

// checkFields checks that every field of a message except execution is in the JSON, so that
// EventJSON cannot miss a new field.
func checkFields(t *testing.T, path string, d protoreflect.MessageDescriptor, value any) {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		t.Errorf("%s is %T", path, value)
		return
	}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		name := string(f.Name())
		switch name {
		case "execution":
			if _, ok := object[name]; ok {
				t.Errorf("%s.%s is shown", path, name)
			}
			continue
		case "extra_json":
			name = "x_extra_json" // the one member that fill wrote
		default:
			name = strings.TrimSuffix(name, "_json")
		}
		child, ok := object[name]
		if !ok {
			t.Errorf("%s has no %s", path, name)
			continue
		}
		if f.Message() == nil || f.IsMap() || f.Message().FullName() == "google.protobuf.Timestamp" {
			continue
		}
		if f.IsList() {
			child = child.([]any)[0]
		}
		checkFields(t, path+"."+name, f.Message(), child)
	}
}

func TestEventJSONHoldsEveryField(t *testing.T) {
	t.Parallel()
	for _, event := range []proto.Message{
		filled(&genbusv1.VideoTaskEvent{}), filled(&genbusv1.ChatEvent{}), filled(&genbusv1.ChatChunk{}),
	} {
		text, err := EventJSON(event)
		if err != nil {
			t.Fatal(err)
		}
		requireValidJSON(t, text)
		if strings.ContainsAny(string(text), "\r\n") {
			t.Errorf("more than one line: %s", text)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		checkFields(t, string(event.ProtoReflect().Descriptor().Name()), event.ProtoReflect().Descriptor(), value)
	}
}

func TestEventJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		event proto.Message
		want  string
	}{
		{&genbusv1.VideoTaskEvent{Id: "video_a.1.n", Version: 1, Time: at(0), Task: &genbusv1.VideoTask{
			Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, Tenant: "default", Version: 1,
			Execution: &genbusv1.Execution{Route: "r", Fingerprint: []byte("f")}}},
			`{"id":"video_a.1.n","version":1,"time":"1970-01-01T00:00:00.5Z",` +
				`"task":{"id":"video_a","status":"queued","progress":0,"tenant":"default","version":1}}`},
		{&genbusv1.ChatEvent{Id: "chat_a.3.n", Version: 3, PreviousStatus: genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS, Chat: &genbusv1.Chat{
			Id: "chat_a", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, ReplyJson: []byte("{\n\"n\":12345678901234567890}"),
			ReplyRef: &genbusv1.BlobRef{Bucket: "b", Size: 1 << 40, Sha256: []byte{1, 255}}}},
			`{"id":"chat_a.3.n","version":3,"previous_status":"in_progress","chat":{"id":"chat_a","status":"completed",` +
				`"reply":{ "n":12345678901234567890},"reply_ref":{"bucket":"b","size":1099511627776,"sha256":"Af8="},` +
				`"version":0,"attempt":0,"inline":false}}`},
		{&genbusv1.ChatChunk{Id: "chat_a", Attempt: 1, Index: 7, Blocks: [][]byte{[]byte(`{"a":1.0}`), []byte("no \xff JSON\n"), {}}},
			`{"id":"chat_a","attempt":1,"index":7,"blocks":[{"a":1.0},"no ` + "\ufffd" + ` JSON\n",""]}`},
		{&genbusv1.VideoTaskEvent{Task: &genbusv1.VideoTask{Error: &genbusv1.TaskError{Code: "c", RetryAfterSeconds: math.Inf(1)},
			Usage: &genbusv1.Usage{ExtraJson: []byte("[]")}}},
			`{"id":"","version":0,"task":{"id":"","status":"unknown","progress":0,` +
				`"error":{"code":"c","message":"","retryable":false},"version":0,"usage":{}}}`},
	} {
		got, err := EventJSON(test.event)
		if err != nil || string(got) != test.want {
			t.Errorf("\n got %s, %v\nwant %s", got, err, test.want)
		}
		requireValidJSON(t, got)
	}
	if _, err := EventJSON(&genbusv1.Usage{}); err == nil || !strings.Contains(err.Error(), "Usage is not an event") {
		t.Errorf("another message: %v", err)
	}
}

package hostile

import (
	"encoding/binary"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Methods lists the gRPC methods that receive hostile messages.
var Methods = []string{
	CreateMethod, "/genbus.v1.VideoService/GetVideoTask", "/genbus.v1.VideoService/ListVideoTasks", "/genbus.v1.VideoService/CancelVideoTask", "/genbus.v1.VideoService/WatchVideoTask",
	"/genbus.v1.VideoService/DeleteVideoTask", "/genbus.v1.VideoService/DownloadVideo", "/genbus.v1.ChatService/CreateChatCompletion", "/genbus.v1.ChatService/StreamChatCompletion",
	"/genbus.v1.ChatService/SubmitChatCompletion", "/genbus.v1.ChatService/GetChatCompletion", "/genbus.v1.ChatService/WatchChatCompletion", "/genbus.v1.ChatService/CancelChatCompletion",
	"/genbus.v1.ChatService/ListChatCompletions", "/genbus.v1.ModelService/ListModels", "/grpc.health.v1.Health/Check", "/genbus.v1.VideoService/NoSuchMethod", "/no.such.Service/Method",
}

// Message returns a hostile message for one of Methods.
func Message(s *Source, t Target, method string) Input {
	switch {
	case s.Chance(25):
		return Input{Name: "wire", Bytes: Wire(s, messageFor(s, t, method))}
	case s.Chance(10):
		return Input{Name: "any bytes", Bytes: s.Bytes(s.N(200))}
	default:
		return Input{Name: "fields", Bytes: messageFor(s, t, method)}
	}
}

// messageFor returns valid Protobuf with hostile fields.
func messageFor(s *Source, t Target, method string) []byte {
	name := method[strings.LastIndexByte(method, '/')+1:]
	switch {
	case name == "CreateVideoTask":
		return protowire.AppendBytes([]byte{0x0a}, VideoWire(s, t))
	case strings.HasSuffix(name, "ChatCompletion") && !strings.HasPrefix(name, "Get") && !strings.HasPrefix(name, "Watch") && !strings.HasPrefix(name, "Cancel"):
		return protowire.AppendBytes([]byte{0x0a}, ChatWire(s, t))
	case name == "ListVideoTasks", name == "ListChatCompletions":
		return listWire(s)
	default:
		return idWire(s, t)
	}
}

// idWire returns a message with an ID in field 1, followed by numbers and texts.
func idWire(s *Source, t Target) []byte {
	id := One(s, []string{t.video(s), t.chat(s), Text(s), "", One(s, tokens)})
	b := protowire.AppendString([]byte{0x0a}, id)
	for field := protowire.Number(2); field < 6; field++ {
		if s.Chance(40) {
			b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), One(s, varints))
		} else if s.Chance(40) {
			b = protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), One(s, tokens))
		}
	}
	return b
}

var varints = []uint64{0, 1, 1 << 31, 1<<31 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1, 1 << 20}

func listWire(s *Source) []byte {
	var b []byte
	for _, field := range []protowire.Number{1, 4} {
		b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), One(s, varints))
	}
	for _, field := range []protowire.Number{2, 3} {
		var at []byte
		at = protowire.AppendVarint(protowire.AppendTag(at, 1, protowire.VarintType), One(s, varints))
		at = protowire.AppendVarint(protowire.AppendTag(at, 2, protowire.VarintType), One(s, varints))
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), at)
	}
	return protowire.AppendString(protowire.AppendTag(b, 5, protowire.BytesType), One(s, tokens))
}

// VideoWire returns a hostile genbus.v1.VideoRequest.
func VideoWire(s *Source, t Target) []byte {
	kind := One(s, Kinds[:4])
	m := &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: JSON(s, kind, t).Bytes}}
	if s.Chance(50) {
		m.Body = &genbusv1.VideoRequest_Video{Video: typedVideo(s, t)}
	}
	b := marshal(m)
	if s.Chance(50) {
		b = append(b, extras(s, 1, 4, 5, 6, 7)...)
	}
	return b
}

// ChatWire returns a hostile genbus.v1.ChatRequest.
func ChatWire(s *Source, t Target) []byte {
	m := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: JSON(s, Chat, t).Bytes}}
	if s.Chance(40) {
		m.Body = &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
			Model:     "sandbox-chat-fast:chunks=2",
			Messages:  []*genbusv1.ChatMessage{{Role: clean(s), Content: &genbusv1.ChatMessage_Text{Text: t.Marker + clean(s)}}},
			ExtraJson: JSON(s, Chat, t).Bytes,
		}}
	}
	b := marshal(m)
	if s.Chance(50) {
		b = append(b, extras(s, 1, 4, 5, 6)...)
	}
	return b
}

// clean returns hostile text that is valid UTF-8, as Protobuf requires.
func clean(s *Source) string { return strings.ToValidUTF8(Text(s), "?") }

func typedVideo(s *Source, t Target) *genbusv1.VideoGeneration {
	number := func() *int32 { return proto.Int32(int32(One(s, varints))) } // may overflow
	v := &genbusv1.VideoGeneration{
		Model:  One(s, []string{"sandbox-video", "sandbox-videos", "sandbox-kling", "sandbox-jimeng", clean(s)}),
		Prompt: t.Marker + clean(s),
	}
	for _, set := range []func(){
		func() { v.Image = proto.String(One(s, append([]string{clean(s)}, Addresses...))) },
		func() { v.Duration = proto.Float64(One(s, floats)) },
		func() { v.Width, v.Height = number(), number() },
		func() { v.Fps, v.N = number(), number() },
		func() { v.Seed = proto.Int64(int64(One(s, varints))) },
		func() { v.MetadataJson = JSON(s, Primary, t).Bytes },
		func() { v.ExtraJson = JSON(s, One(s, Kinds), t).Bytes },
	} {
		if s.Chance(40) {
			set()
		}
	}
	return v
}

// extras returns the fields of a request other than its body. They are a request ID, labels, a time
// and texts. They are encoded by hand, because the texts may be invalid UTF-8.
func extras(s *Source, id, labels, expires protowire.Number, texts ...protowire.Number) []byte {
	text := func(b []byte, field protowire.Number) []byte {
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), Text(s))
	}
	var b []byte
	if s.Chance(40) {
		b = text(b, id)
	}
	if s.Chance(40) {
		for range 1 + s.N(20) {
			b = protowire.AppendBytes(protowire.AppendTag(b, labels, protowire.BytesType), text(text(nil, 1), 2))
		}
	}
	if s.Chance(40) {
		at := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), One(s, varints))
		at = protowire.AppendVarint(protowire.AppendTag(at, 2, protowire.VarintType), One(s, varints))
		b = protowire.AppendBytes(protowire.AppendTag(b, expires, protowire.BytesType), at)
	}
	for _, field := range texts {
		if s.Chance(20) {
			b = text(b, field)
		}
	}
	return b
}

// marshal returns nil if the message cannot be encoded.
func marshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		return nil
	}
	return b
}

// Wire returns a broken copy of a Protobuf message.
func Wire(s *Source, good []byte) []byte {
	b := slices.Clone(good)
	switch s.N(9) {
	case 0:
		return b[:s.N(len(b)+1)]
	case 1:
		for range 1 + s.N(4) {
			if len(b) > 0 {
				b[s.N(len(b))] = byte(s.N(256))
			}
		}
		return b
	case 2: // length of 2^63 or more
		return binary.AppendUvarint(append(b, 0x0a), One(s, varints[5:]))
	case 3: // unterminated varint
		return append(b, []byte(strings.Repeat("\xff", 12))...)
	case 4: // nested groups
		return append(b, []byte(strings.Repeat("\x0b", 11_000)+strings.Repeat("\x0c", 11_000))...)
	case 5: // nested messages
		for range 2000 {
			b = protowire.AppendBytes([]byte{0x0a}, b[:min(len(b), 30_000)])
		}
		return b
	case 6: // unknown fields
		for i := range 3000 {
			b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(100+i), protowire.VarintType), 1)
		}
		return b
	case 7: // field 0 and unknown wire types
		return append(b, 0x00, 0x0f, 0x06, 0x07)
	default: // repeated content
		for range 50 {
			b = append(b, good[:min(len(good), 30_000)]...)
		}
		return b
	}
}

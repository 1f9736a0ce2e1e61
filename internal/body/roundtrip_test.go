package body

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// roundTrip checks that JSON -> typed -> JSON gives the same JSON value, that the typed message
// survives Protobuf, and that typed -> JSON -> typed is equal.
func roundTrip[M proto.Message](
	t *testing.T, texts *rapid.Generator[string], parse func([]byte) (M, error), write func(M) ([]byte, error),
) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(texts.Draw(t, "json"))
		m, err := parse(text)
		if err != nil {
			t.Fatalf("parse: %v\n%s", err, text)
		}
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		received := m.ProtoReflect().New().Interface().(M)
		if err := proto.Unmarshal(wire, received); err != nil {
			t.Fatalf("unmarshal: %v", err)
		}
		again, err := write(received)
		if err != nil {
			t.Fatalf("write: %v\n%s", err, text)
		}
		if diff := diffJSON(t, text, again); diff != "" {
			t.Fatalf("the JSON changed (-before +after):\n%s\n%s\n%s", diff, text, again)
		}
		twice, err := parse(again)
		if err != nil {
			t.Fatalf("parse again: %v\n%s", err, again)
		}
		if !proto.Equal(m, twice) {
			t.Fatalf("the message changed:\n%v\n%v", m, twice)
		}
	})
}

func TestCompletionRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, replyJSON("message"), ParseCompletion, completionJSON)
}

func TestChunkRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, replyJSON("delta"), ParseChunk, ChunkJSON)
}

func TestChatRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, chatJSON(), parseChat, func(m *genbusv1.ChatCompletionBody) ([]byte, error) {
		return chatText(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: m}})
	})
}

func TestVideoRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, videoJSON(), parseVideo, func(m *genbusv1.VideoGeneration) ([]byte, error) {
		return videoText(&genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: m}})
	})
}

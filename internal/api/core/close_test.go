package core_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
)

// TestCloseCutsInlineChats checks that inline chats survive Drain and end with Close.
func TestCloseCutsInlineChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const slow = "sandbox-chat:chunks=100000,chunk_interval_ms=5"
	body := strings.Replace(apitest.StreamBody, "sandbox-chat", slow, 1)
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", body))
	s.Next()
	c := genbusv1grpc.NewChatServiceClient(w.Dial())
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(),
		&genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(body)}}}))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	w.Drain(nil)
	for range 20 {
		s.Next()
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rest := s.Rest()
	if last := rest[len(rest)-1].Data; !strings.Contains(last, `"code":"shutting_down"`) {
		t.Errorf("last block %s", last)
	}
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			t.Fatal("the stream ended as if it were whole")
		}
		if err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
			return
		}
	}
}

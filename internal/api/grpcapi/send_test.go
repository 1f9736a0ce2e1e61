package grpcapi_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/errcode"
)

// TestGRPCClientThatDoesNotRead checks that a client that does not read gets slow_reader, and its
// upstream call ends.
func TestGRPCClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Core.WriteTimeout = 2 * time.Second // longer than the machine may stall within a write
	c := genbusv1grpc.NewChatServiceClient(w.Dial())
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(),
		&genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{
			RawJson: []byte(strings.Replace(apitest.StreamBody, "sandbox-chat", apitest.Endless, 1)),
		}}}))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	w.Await("the end of the upstream call", func() bool { return w.Sandbox.Sandbox.Stats().StreamsOpen == 0 })
	for {
		_, err := stream.Recv()
		if err == nil {
			continue
		}
		apitest.CheckStatus(t, err, codes.ResourceExhausted, errcode.SlowReader)
		return
	}
}

package client_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(tests{brokertest.Tests{M: m}}, brokertest.Leaks()...)
}

// tests runs the package's tests and examples.
type tests struct{ brokertest.Tests }

// Run also waits until the services of the examples have stopped.
func (x tests) Run() int {
	code := x.Tests.Run()
	if err := stopping.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// connect returns a client on its own connection.
func connect(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(connection(t, url), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func connection(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// within returns a context that bounds a test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func video(model, requestID string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{RequestId: requestID, Body: &genbusv1.VideoRequest_Video{
		Video: &genbusv1.VideoGeneration{Model: model, Prompt: "a paper boat"},
	}}
}

func chat(model string) *genbusv1.ChatRequest {
	stream := true
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: model, Stream: &stream,
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "What does an event bus do?"}}},
	}}}
}

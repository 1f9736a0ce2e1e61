package api_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
)

// endless is a stream with more bytes than any buffer on the way holds.
const endless = "sandbox-chat-fast:chunks=1000000"

// TestHTTPClientThatDoesNotRead is cut off, and its upstream call ends.
func TestHTTPClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetWriteTimeout(200 * time.Millisecond)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := w.request(http.MethodPost, "/v1/chat/completions", strings.Replace(streamBody, "sandbox-chat", endless, 1))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	defer res.Body.Close()
	w.await("the end of the upstream call", func() bool { return w.sandbox.Sandbox.Stats().StreamsOpen == 0 })
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

// TestGRPCClientThatDoesNotRead is told slow_reader, and its upstream call ends.
func TestGRPCClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetWriteTimeout(200 * time.Millisecond)
	c := genbusv1.NewChatServiceClient(w.dial())
	stream := must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(),
		&genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{
			RawJson: []byte(strings.Replace(streamBody, "sandbox-chat", endless, 1)),
		}}}))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	w.await("the end of the upstream call", func() bool { return w.sandbox.Sandbox.Stats().StreamsOpen == 0 })
	for {
		_, err := stream.Recv()
		if err == nil {
			continue
		}
		checkStatus(t, err, codes.ResourceExhausted, fault.SlowReader)
		return
	}
}

// TestCloseCutsInlineChats: Drain lets them go on, Close does not.
func TestCloseCutsInlineChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const slow = "sandbox-chat:chunks=100000,chunk_interval_ms=5"
	body := strings.Replace(streamBody, "sandbox-chat", slow, 1)
	s := w.open(w.request(http.MethodPost, "/v1/chat/completions", body))
	s.next()
	c := genbusv1.NewChatServiceClient(w.dial())
	stream := must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(),
		&genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(body)}}}))
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	w.api.Drain(nil)
	for range 20 {
		s.next()
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.api.Close(); err != nil {
		t.Fatal(err)
	}
	rest := s.rest()
	if last := rest[len(rest)-1].data; !strings.Contains(last, `"code":"shutting_down"`) {
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

package grpcapi_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

// TestNoMessageIsReadOfAStranger checks that unknown callers and tenants over their rate limit are
// refused before most of the message arrives.
func TestNoMessageIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}), func(c *config.Config) {
		c.OperatorKeys = []config.OperatorKey{{Name: "ops", Key: config.NewSecret(apitest.OperatorKey)}}
	})
	target := "http://" + w.grpcAddress()
	w.Get("/v1/models", apitest.ByAcme...)
	for name, row := range map[string]struct {
		key  string
		want codes.Code
	}{
		"a stranger": {"Bearer none", codes.Unauthenticated}, "nobody": {"", codes.Unauthenticated}, "too often": {"Bearer key-acme", codes.ResourceExhausted},
	} {
		for _, method := range []string{
			"/genbus.v1.VideoService/CreateVideoTask", "/genbus.v1.ChatService/StreamChatCompletion", "/genbus.v1.OperatorService/EraseJob",
		} {
			if row.want == codes.ResourceExhausted && method == "/genbus.v1.OperatorService/EraseJob" {
				continue
			}
			if got := beginMessage(t, target+method, row.key); got != row.want {
				t.Errorf("%s, %s: %s", name, method, got)
			}
		}
	}
}

// TestMessageThatDoesNotCome checks that an incomplete message is given up, also on open methods,
// and that its deadline does not bound the call.
func TestMessageThatDoesNotCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Core.BodyTimeout = 2 * time.Second // longer than a complete message may take
	address := w.grpcAddress()
	t.Run("calls", func(t *testing.T) { // the group ends after all calls
		for _, method := range []string{
			"/genbus.v1.VideoService/CreateVideoTask", "/genbus.v1.VideoService/WatchVideoTask", "/genbus.v1.ChatService/StreamChatCompletion",
			"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
		} {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				if got := beginMessage(t, "http://"+address+method, ""); got != codes.InvalidArgument {
					t.Errorf("%s: %s", method, got)
				}
			})
		}
		t.Run("longer than a message", func(t *testing.T) {
			t.Parallel()
			stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(genbusv1grpc.NewChatServiceClient(w.Dial()).StreamChatCompletion(t.Context(),
				&genbusv1.StreamChatCompletionRequest{Request: &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{
					RawJson: []byte(strings.Replace(apitest.StreamBody, "sandbox-chat", "sandbox-chat:chunks=10,chunk_interval_ms=300", 1)),
				}}}))
			for n := 0; ; n++ {
				_, err := stream.Recv()
				if errors.Is(err, io.EOF) && n > 5 {
					return
				}
				if err != nil {
					t.Fatalf("after %d messages: %v", n, err)
				}
			}
		})
	})
}

func (w *world) grpcAddress() string {
	w.T.Helper()
	return w.Dial().Target()
}

// beginMessage sends the beginning of a message of 30 MiB and returns the status of the call.
func beginMessage(t testing.TB, url, key string) codes.Code {
	t.Helper()
	body, message := io.Pipe()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	if key != "" {
		r.Header.Set("Authorization", key)
	}
	go func() {
		prefix := binary.BigEndian.AppendUint32([]byte{0}, 30<<20)
		_, _ = message.Write(append(prefix, make([]byte, 1<<10)...)) // the rest never comes
	}()
	defer func() { _ = message.Close() }()
	timer := time.AfterFunc(brokertest.Patience, func() { _ = message.CloseWithError(net.ErrClosed) })
	defer timer.Stop()
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("%s: %v", url, err)
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(res.Trailer.Get("Grpc-Status"))); err != nil {
		t.Errorf("%s: %v %v", url, res.Trailer, err)
	}
	return code
}

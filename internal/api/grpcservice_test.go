package api_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/genbus/genbus/internal/config"
)

// TestNoMessageIsReadOfAStranger, nor of a tenant that asks too often: the answer
// comes while most of the message is still to be sent.
func TestNoMessageIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}), func(c *config.Config) {
		c.OperatorKeys = []config.OperatorKey{{Name: "ops", Key: config.NewSecret(operatorKey)}}
	})
	target := "http://" + w.grpcAddress()
	w.get("/v1/models", byAcme...)
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
			if got := w.beginMessage(target+method, row.key); got != row.want {
				t.Errorf("%s, %s: %s", name, method, got)
			}
		}
	}
}

// grpcAddress serves gRPC on TCP.
func (w *world) grpcAddress() string {
	w.t.Helper()
	return w.dial().Target()
}

// beginMessage sends the begin of a message of 30 MiB, and gives the status with
// which the call is answered.
func (w *world) beginMessage(url, key string) codes.Code {
	w.t.Helper()
	body, message := io.Pipe()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url, body)
	if err != nil {
		w.t.Fatal(err)
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
	timer := time.AfterFunc(10*time.Second, func() { _ = message.CloseWithError(net.ErrClosed) })
	defer timer.Stop()
	res, err := transport.RoundTrip(r)
	if err != nil {
		w.t.Fatalf("%s: %v", url, err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		w.t.Errorf("%s: %v", url, err)
	}
	var code codes.Code
	if err := code.UnmarshalJSON([]byte(res.Trailer.Get("Grpc-Status"))); err != nil {
		w.t.Errorf("%s: %v %v", url, res.Trailer, err)
	}
	return code
}

package httpapi_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/apitest"
)

// TestHTTPClientThatDoesNotRead checks that a client that does not read is cut off and its upstream
// call ends.
func TestHTTPClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Core.WriteTimeout = 2 * time.Second // longer than the machine may stall within a write
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := w.Request(http.MethodPost, "/v1/chat/completions", strings.Replace(apitest.StreamBody, "sandbox-chat", apitest.Endless, 1))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	defer res.Body.Close()
	w.Await("the end of the upstream call", func() bool { return w.Sandbox.Sandbox.Stats().StreamsOpen == 0 })
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

// TestNoAnswerWaitsForItsReader checks that a client that sends many requests and reads nothing is
// cut off, on every path.
func TestNoAnswerWaitsForItsReader(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/openapi.json", "/metrics", "/healthz", "/nowhere", "/v1//events", "/v1/models", "/genbus/v1/models"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Core.WriteTimeout = 200 * time.Millisecond
			conn, err := net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var ask bytes.Buffer
			if err := w.Request(http.MethodGet, path, "").Write(&ask); err != nil {
				t.Fatal(err)
			}
			many := bytes.Repeat(ask.Bytes(), 100)
			if err := conn.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = conn.Write(many)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the client may keep its connection, and reads nothing")
			}
		})
	}
}

package chat

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

const testBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

func serve(t testing.TB, opts Options, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	transport := upstream.NewTransport(upstream.TransportOptions{})
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return New(&upstream.Endpoint{Name: "test", BaseURL: server.URL, Key: "sk-secret-key", Transport: transport}, opts)
}

// pipes is a listener inside a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error {
	close(p.closed)
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// serveInBubble is serve inside a synctest bubble, where only explicit waits take time.
func serveInBubble(t testing.TB, opts Options, handler http.HandlerFunc) *Client {
	t.Helper()
	p := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(p) }()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return New(&upstream.Endpoint{Name: "test", BaseURL: "http://test", Key: "sk-secret-key", Transport: transport}, opts)
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if contentType == "" {
			w.Header()["Content-Type"] = nil // stops net/http from guessing
		} else {
			w.Header().Set("Content-Type", contentType)
		}
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func collect(s *Stream) ([]string, error) {
	var blocks []string
	for {
		b, err := s.Next()
		if err != nil {
			return blocks, err
		}
		blocks = append(blocks, string(b))
	}
}

// streamAll calls Stream and reads it all. refused is true for an error of Stream, false for one of
// Next.
func streamAll(t testing.TB, c *Client) (blocks []string, refused bool, err error) {
	t.Helper()
	s, err := c.Stream(t.Context(), Request{JobID: "chat_1", Body: []byte(testBody)})
	if err != nil {
		return nil, true, err
	}
	defer s.Close()
	blocks, err = collect(s)
	if _, again := s.Next(); again != err {
		t.Errorf("the error did not stick: %v, then %v", err, again)
	}
	return blocks, false, err
}

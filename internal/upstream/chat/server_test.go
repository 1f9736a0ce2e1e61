package chat

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

const testBody = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`

// serve starts an upstream and gives a client for it.
func serve(t testing.TB, opts Options, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	httpClient := upstream.NewHTTPClient(upstream.TransportOptions{})
	t.Cleanup(func() {
		httpClient.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return New(&upstream.Endpoint{Name: "test", BaseURL: server.URL, Key: "sk-secret-key", Client: httpClient}, opts)
}

// answer is a handler that gives one fixed answer after reading the request.
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

// collect reads a stream to its end.
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

// streamAll calls Stream and reads it all. refused tells an error of Stream
// from one of Next.
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

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/test/freeport"
)

var aCreate = VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","prompt":"p"}`))}

// submit sends a create in a protocol that answers {"id":".."}.
func submit(ctx context.Context, ep *Endpoint, create VideoCreate) Submission {
	return ep.Submit(ctx, create, SubmitCall{
		Path: "/v1/tasks", Body: create.Body.Bytes(), Outcomes: SharedRows(),
		Read: func(resp *http.Response, body []byte) (Submission, *Error) {
			var answer struct{ ID string }
			if err := json.Unmarshal(body, &answer); err != nil {
				return Submission{}, ep.Useless(OpCreate, "not readable", resp, body, err)
			}
			return Submission{UpstreamID: answer.ID, Ticket: "k"}, nil
		},
	})
}

// endpointOf returns an endpoint whose connections are closed with the test.
func endpointOf(t *testing.T, baseURL string, opts TransportOptions) *Endpoint {
	t.Helper()
	transport := NewTransport(opts)
	t.Cleanup(transport.CloseIdleConnections)
	return &Endpoint{Name: "test", BaseURL: baseURL, Key: testKey, Transport: transport}
}

const goodAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n" + `{"id":"t"}`

func TestSubmitBrokenAnswer(t *testing.T) {
	t.Parallel()
	cases := map[string]func(int64, *net.TCPConn){
		"reset before the answer":  func(_ int64, c *net.TCPConn) { reset(c) },
		"closed before the answer": func(_ int64, c *net.TCPConn) { _ = c.Close() },
		"closed within the header": func(_ int64, c *net.TCPConn) { send(c, "HTTP/1.1 200 OK\r\nConte") },
		"closed within the body": func(_ int64, c *net.TCPConn) {
			send(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"id\":\"t\"")
		},
		"refusal cut off": func(_ int64, c *net.TCPConn) {
			send(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 99\r\n\r\n{\"code\"")
		},
		"not HTTP": func(_ int64, c *net.TCPConn) { send(c, "220 mail.example.com ESMTP\r\n") },
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, answer)
			sub := submit(t.Context(), endpointOf(t, server.url, TransportOptions{}), aCreate)
			wantVerdict(t, sub, Unknown, true)
			if n := server.requests.Load(); n != 1 {
				t.Errorf("the upstream got %d requests, want 1", n)
			}
		})
	}
}

// TestSubmitDeadConnection checks that a create is not resent if the server kills a reused
// connection after reading it. net/http would resend it because of its Idempotency-Key.
func TestSubmitDeadConnection(t *testing.T) {
	t.Parallel()
	newServer := func(t *testing.T) *rawServer {
		return newRawServer(t, func(n int64, c *net.TCPConn) {
			if n == 2 {
				_ = c.Close()
				return
			}
			_, _ = io.WriteString(c, goodAnswer)
		})
	}

	server := newServer(t)
	ep := endpointOf(t, server.url, TransportOptions{})
	ep.ReuseConnections = true
	wantVerdict(t, submit(t.Context(), ep, aCreate), Accepted, true)
	wantVerdict(t, submit(t.Context(), ep, aCreate), Unknown, true)
	if n := server.requests.Load(); n != 2 {
		t.Errorf("the upstream got %d requests, want 2", n)
	}

	// An ordinary request, to show that net/http resends it here.
	server = newServer(t)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "video_1")
		resp, err := ep.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if n := server.requests.Load(); n != 3 {
		t.Errorf("an ordinary request reached the server %d times, want 3: this test no longer tests anything", n)
	}
}

func TestSubmitNeverWritten(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		addrs, err := freeport.Addrs(1)
		if err != nil {
			t.Fatal(err)
		}
		sub := submit(t.Context(), endpointOf(t, "http://"+addrs[0], TransportOptions{}), aCreate)
		wantVerdict(t, sub, RefusedForNow, false)
	})
	t.Run("unknown certificate", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		sub := submit(t.Context(), endpointOf(t, server.URL, TransportOptions{}), aCreate)
		wantVerdict(t, sub, RefusedForNow, false)
	})
	t.Run("handshake hangs", func(t *testing.T) {
		t.Parallel()
		accepted := make(chan net.Conn, 1)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer close(accepted)
			if conn, err := listener.Accept(); err == nil {
				accepted <- conn
			}
		}()
		t.Cleanup(func() {
			_ = listener.Close()
			for conn := range accepted {
				_ = conn.Close()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		sub := submit(ctx, endpointOf(t, "https://"+listener.Addr().String(), TransportOptions{}), aCreate)
		wantVerdict(t, sub, RefusedForNow, false)
	})
	t.Run("already cancelled", func(t *testing.T) {
		t.Parallel()
		ep := testEndpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantVerdict(t, submit(ctx, ep, aCreate), RefusedForNow, false)
	})
	t.Run("empty body", func(t *testing.T) {
		t.Parallel()
		ep := testEndpoint(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		wantVerdict(t, submit(t.Context(), ep, VideoCreate{JobID: "video_1"}), RefusedForGood, false)
	})
}

func TestSubmitTimeoutAfterWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	ep := testEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(errors.New("create_timeout of 60s is over"))
		<-r.Context().Done()
	})
	sub := submit(ctx, ep, aCreate)
	wantVerdict(t, sub, Unknown, true)
	if !strings.Contains(sub.Err.Message, "create_timeout of 60s is over") {
		t.Errorf("message = %q, want it to name the timeout", sub.Err.Message)
	}
}

func TestSubmitAnswerTooLong(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"t","x":"`+strings.Repeat("x", 2000)+`"}`)
	})
	ep.MaxBody = 1000
	wantVerdict(t, submit(t.Context(), ep, aCreate), Unknown, true)
}

func TestSubmitRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	var requests atomic.Int64
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, other.URL+"/v1/video/generations", http.StatusTemporaryRedirect)
	})
	sub := submit(t.Context(), ep, aCreate)
	wantVerdict(t, sub, RefusedForGood, true)
	if host := strings.TrimPrefix(other.URL, "http://"); !strings.Contains(sub.Err.Message, host) {
		t.Errorf("message = %q, want it to name %s", sub.Err.Message, host)
	}
	if _, err := poll(t.Context(), ep, TaskRef{ID: "t"}); AsError(OpPoll, err).HTTPStatus != http.StatusTemporaryRedirect {
		t.Errorf("Poll error = %v, want status 307", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the upstream got %d requests, want 2", n)
	}
}

// TestSubmitUnreadableRedirect checks that the answer decides, although its Location is unreadable,
// and that the error does not quote it.
func TestSubmitUnreadableRedirect(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://%zz/?sig=signature")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	sub := submit(t.Context(), ep, aCreate)
	wantVerdict(t, sub, RefusedForGood, true)
	if !strings.Contains(sub.Err.Message, "redirects to another path") || strings.Contains(sub.Err.Error(), "signature") {
		t.Errorf("got %v", sub.Err)
	}
}

func TestSubmitOverHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || string(body) != string(aCreate.Body.Bytes()) {
			t.Errorf("got %s with body %q", r.Proto, body)
		}
		_, _ = io.WriteString(w, `{"id":"t"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	tlsConfig := server.Client().Transport.(*http.Transport).TLSClientConfig
	ep := endpointOf(t, server.URL, TransportOptions{TLS: tlsConfig})
	wantVerdict(t, submit(t.Context(), ep, aCreate), Accepted, true)
}

func wantVerdict(t *testing.T, sub Submission, want Verdict, written bool) {
	t.Helper()
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if sub.Err != nil && sub.Err.Written != written {
		t.Errorf("written = %v, want %v (%v)", sub.Err.Written, written, sub.Err)
	}
	if (sub.Err == nil) != (sub.Verdict == Accepted) {
		t.Errorf("error %v does not fit the verdict %v", sub.Err, sub.Verdict)
	}
}

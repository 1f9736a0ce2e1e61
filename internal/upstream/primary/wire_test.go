package primary

import (
	"bufio"
	"context"
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

	"github.com/genbus/genbus/internal/upstream"
)

var aCreate = upstream.VideoCreate{JobID: "video_1", Body: []byte(`{"model":"m","prompt":"p"}`)}

const goodAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n" + `{"task_id":"t"}`

// rawServer is a TCP server that reads whole requests and answers the nth one
// (from 1) on whichever connection it comes.
type rawServer struct {
	url      string
	requests atomic.Int64
}

func newRawServer(t *testing.T, answer func(n int64, conn *net.TCPConn)) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + listener.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*net.TCPConn), answer)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return s
}

func (s *rawServer) serve(conn *net.TCPConn, answer func(int64, *net.TCPConn)) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		answer(s.requests.Add(1), conn)
	}
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func TestCreateBrokenAnswer(t *testing.T) {
	t.Parallel()
	cases := map[string]func(int64, *net.TCPConn){
		"reset before the answer":  func(_ int64, c *net.TCPConn) { reset(c) },
		"closed before the answer": func(_ int64, c *net.TCPConn) { _ = c.Close() },
		"closed within the header": func(_ int64, c *net.TCPConn) { send(c, "HTTP/1.1 200 OK\r\nConte") },
		"closed within the body": func(_ int64, c *net.TCPConn) {
			send(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"task_id\":\"t\"")
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
			sub := clientOf(t, server.url, upstream.TransportOptions{}).Create(t.Context(), aCreate)
			wantVerdict(t, sub, upstream.Unknown, true)
			if n := server.requests.Load(); n != 1 {
				t.Errorf("the upstream got %d requests, want 1", n)
			}
		})
	}
}

func send(c *net.TCPConn, s string) {
	_, _ = io.WriteString(c, s)
	_ = c.Close()
}

// TestCreateDeadConnection has a server that kills a reused connection after it
// has read a create. net/http would resend it, because of its Idempotency-Key.
func TestCreateDeadConnection(t *testing.T) {
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
	client := clientOf(t, server.url, upstream.TransportOptions{})
	wantVerdict(t, client.Create(t.Context(), aCreate), upstream.Accepted, true)
	wantVerdict(t, client.Create(t.Context(), aCreate), upstream.Unknown, true)
	if n := server.requests.Load(); n != 2 {
		t.Errorf("the upstream got %d requests, want 2", n)
	}

	// The same with an ordinary request shows that the server provokes a resend.
	server = newServer(t)
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "video_1")
		resp, err := client.ep.Client.Do(req)
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

func TestCreateNeverWritten(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().String()
		_ = listener.Close()
		sub := clientOf(t, "http://"+addr, upstream.TransportOptions{}).Create(t.Context(), aCreate)
		wantVerdict(t, sub, upstream.RefusedForNow, false)
	})
	t.Run("unknown certificate", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		sub := clientOf(t, server.URL, upstream.TransportOptions{}).Create(t.Context(), aCreate)
		wantVerdict(t, sub, upstream.RefusedForNow, false)
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
		sub := clientOf(t, "https://"+listener.Addr().String(), upstream.TransportOptions{}).Create(ctx, aCreate)
		wantVerdict(t, sub, upstream.RefusedForNow, false)
	})
	t.Run("already cancelled", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wantVerdict(t, client.Create(ctx, aCreate), upstream.RefusedForNow, false)
	})
	t.Run("empty body", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		wantVerdict(t, client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1"}), upstream.RefusedForGood, false)
	})
}

func TestCreateTimeoutAfterWrite(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel(errors.New("create_timeout of 60s is over"))
		<-r.Context().Done()
	})
	sub := client.Create(ctx, aCreate)
	wantVerdict(t, sub, upstream.Unknown, true)
	if !strings.Contains(sub.Err.Message, "create_timeout of 60s is over") {
		t.Errorf("message = %q, want it to name the timeout", sub.Err.Message)
	}
}

func TestCreateAnswerTooLong(t *testing.T) {
	t.Parallel()
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"task_id":"t","x":"`+strings.Repeat("x", 2000)+`"}`)
	})
	client.ep.MaxBody = 1000
	wantVerdict(t, client.Create(t.Context(), aCreate), upstream.Unknown, true)
}

func TestCreateRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed, with Authorization %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(other.Close)
	var requests atomic.Int64
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.Redirect(w, r, other.URL+"/v1/video/generations", http.StatusTemporaryRedirect)
	})
	sub := client.Create(t.Context(), aCreate)
	wantVerdict(t, sub, upstream.RefusedForGood, true)
	if host := strings.TrimPrefix(other.URL, "http://"); !strings.Contains(sub.Err.Message, host) {
		t.Errorf("message = %q, want it to name %s", sub.Err.Message, host)
	}
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: "t"}); upstream.AsError("poll", err).HTTPStatus != http.StatusTemporaryRedirect {
		t.Errorf("Poll error = %v, want status 307", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the upstream got %d requests, want 2", n)
	}
}

func TestCreateOverHTTP2(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || string(body) != string(aCreate.Body) {
			t.Errorf("got %s with body %q", r.Proto, body)
		}
		_, _ = io.WriteString(w, `{"id":"t"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	tlsConfig := server.Client().Transport.(*http.Transport).TLSClientConfig
	client := clientOf(t, server.URL, upstream.TransportOptions{TLS: tlsConfig})
	wantVerdict(t, client.Create(t.Context(), aCreate), upstream.Accepted, true)
}

func TestCreateRequest(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		got <- r
		_, _ = io.WriteString(w, `{"id":"t"}`)
	})
	client.ep.BaseURL += "/v1/"
	wantVerdict(t, client.Create(t.Context(), aCreate), upstream.Accepted, true)
	r := <-got
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.URL.Path != "/v1/video/generations" || string(body) != string(aCreate.Body) {
		t.Errorf("request = %s %s %q", r.Method, r.URL.Path, body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk-test-0123456789", "Content-Type": "application/json", "Idempotency-Key": "video_1", "Accept-Encoding": "",
	} {
		if value := r.Header.Get(name); value != want {
			t.Errorf("%s = %q, want %q", name, value, want)
		}
	}
}

func TestPollErrorsNeverFailATask(t *testing.T) {
	t.Parallel()
	for _, c := range outcomeCases {
		if c.status/100 == 2 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			state, err := client.Poll(t.Context(), upstream.TaskRef{ID: "t"})
			e, ok := errors.AsType[*upstream.Error](err)
			if !ok || e.HTTPStatus != c.status || e.RetryAfter != 7*time.Second || state.Progression != upstream.Running {
				t.Errorf("Poll = %+v, %+v", state, err)
			}
		})
	}
}

func TestPollBrokenAnswer(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int64, c *net.TCPConn) {
		send(c, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"+`{"status":"failed"}`)
	})
	_, err := clientOf(t, server.url, upstream.TransportOptions{}).Poll(t.Context(), upstream.TaskRef{ID: "t"})
	if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Said {
		t.Errorf("Poll error = %v, want an inferred one", err)
	}
}

func TestPollEscapesTheID(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.RequestURI
		_, _ = io.WriteString(w, `{"status":"queued"}`)
	})
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: "a/b?c#d e"}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-paths, "/v1/video/generations/a%2Fb%3Fc%23d%20e"; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: ""}); err == nil {
		t.Error("Poll without an id succeeded")
	}
}

func wantVerdict(t *testing.T, sub upstream.Submission, want upstream.Verdict, written bool) {
	t.Helper()
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if sub.Err != nil && sub.Err.Written != written {
		t.Errorf("written = %v, want %v (%v)", sub.Err.Written, written, sub.Err)
	}
	if (sub.Err == nil) != (sub.Verdict == upstream.Accepted) {
		t.Errorf("error %v does not fit the verdict %v", sub.Err, sub.Verdict)
	}
}

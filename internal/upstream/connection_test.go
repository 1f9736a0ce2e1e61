package upstream

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// rude lists upstreams that close connections after announcing to keep them.
var rude = map[string]func() func(int64, *net.TCPConn){
	"closes when a second request arrives": func() func(int64, *net.TCPConn) {
		return onSecond(func(c *net.TCPConn) { _ = c.Close() })
	},
	"resets when a second request arrives": func() func(int64, *net.TCPConn) { return onSecond(reset) },
	"closes behind an answer": func() func(int64, *net.TCPConn) {
		return func(_ int64, c *net.TCPConn) { send(c, goodAnswer) }
	},
}

// onSecond answers the first request on each connection and calls end on the second.
func onSecond(end func(*net.TCPConn)) func(int64, *net.TCPConn) {
	var mu sync.Mutex
	used := map[*net.TCPConn]bool{}
	return func(_ int64, c *net.TCPConn) {
		mu.Lock()
		second := used[c]
		used[c] = true
		mu.Unlock()
		if second {
			end(c)
			return
		}
		_, _ = io.WriteString(c, goodAnswer)
	}
}

// TestNoCreateIsLostWithAReusedConnection checks that no create is sent on a connection that the
// upstream is about to close, which would leave the outcome unknown.
func TestNoCreateIsLostWithAReusedConnection(t *testing.T) {
	t.Parallel()
	const creates, clients = 300, 6
	for name, answer := range rude {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, answer())
			ep := endpointOf(t, server.url, TransportOptions{})
			var wait sync.WaitGroup
			verdicts := make(chan Submission, creates)
			for range clients {
				wait.Go(func() {
					for range creates / clients {
						verdicts <- submit(t.Context(), ep, aCreate)
					}
				})
			}
			wait.Wait()
			close(verdicts)
			lost := 0
			for s := range verdicts {
				if s.Verdict != Accepted {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("%d of %d creates were not accepted", lost, creates)
			}
			if n := server.requests.Load(); n != creates {
				t.Errorf("the upstream got %d requests, want %d", n, creates)
			}
		})
	}
}

// TestConnectionsOfCalls checks that creates over HTTP/1.1 do not share connections unless allowed
// to, while other calls do.
func TestConnectionsOfCalls(t *testing.T) {
	t.Parallel()
	const calls = 3
	for name, c := range map[string]struct {
		opts                TransportOptions
		reuse               bool
		forCreates, forRest int64
	}{
		"HTTP 1":                  {TransportOptions{DisableHTTP2: true}, false, calls, 1},
		"HTTP 1, creates reuse":   {TransportOptions{DisableHTTP2: true}, true, 1, 1},
		"HTTP 1, nothing is kept": {TransportOptions{DisableHTTP2: true, DisableKeepAlives: true}, false, calls, calls},
		"HTTP 2":                  {TransportOptions{}, false, 1, 1},
		"HTTP 2, nothing is kept": {TransportOptions{DisableKeepAlives: true}, false, calls, calls},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"id":"t"}`)
			}))
			server.EnableHTTP2 = true
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			server.StartTLS()
			t.Cleanup(server.Close)
			c.opts.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			ep := endpointOf(t, server.URL, c.opts)
			ep.ReuseConnections = c.reuse
			for range calls {
				wantVerdict(t, submit(t.Context(), ep, aCreate), Accepted, true)
			}
			if n := conns.Swap(0); n != c.forCreates {
				t.Errorf("%d creates made %d connections, want %d", calls, n, c.forCreates)
			}
			// Other calls must not start with a connection left by the creates.
			ep.Transport.(*Transport).CloseIdleConnections()
			for range calls {
				if _, _, err := ep.Call(t.Context(), OpPoll, http.MethodPost, "/v1/tasks", []byte("{}"), nil); err != nil {
					t.Error(err)
				}
			}
			if n := conns.Load(); n != c.forRest {
				t.Errorf("%d other calls made %d connections, want %d", calls, n, c.forRest)
			}
		})
	}
}

// TestARequestThatItsConnectionDidNotTake checks that a request counts as unwritten if the
// connection took none of it, although net/http has read the whole body.
func TestARequestThatItsConnectionDidNotTake(t *testing.T) {
	t.Parallel()
	server := newRawServer(t, func(_ int64, c *net.TCPConn) {
		_, _ = io.WriteString(c, goodAnswer)
		reset(c)
	})
	ep := endpointOf(t, server.url, TransportOptions{dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &lateConn{Conn: conn, ended: make(chan struct{}), woken: make(chan struct{})}, err
	}})
	ep.ReuseConnections = true
	wantVerdict(t, submit(t.Context(), ep, aCreate), Accepted, true)
	wantVerdict(t, submit(t.Context(), ep, aCreate), RefusedForNow, false)
	if n := server.requests.Load(); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
}

// TestWhatIsSentTwice checks that a call is repeated if its reused connection failed, but not if it
// failed on a new one.
func TestWhatIsSentTwice(t *testing.T) {
	t.Parallel()
	dialer := func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	for name, c := range map[string]struct {
		scheme string
		dial   func(context.Context, string, string) (net.Conn, error)
		dials  []int64 // after each call
		fails  bool
	}{
		"refused": {"http", func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}, []int64{1, 2}, true},
		"no TLS": {"https", dialer, []int64{1, 2}, true},
		"reset": {"http", func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer(ctx, network, address)
			return &lateConn{Conn: conn, ended: make(chan struct{}), woken: make(chan struct{})}, err
		}, []int64{1, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRawServer(t, func(_ int64, c *net.TCPConn) {
				_, _ = io.WriteString(c, goodAnswer)
				reset(c)
			})
			var dials, again atomic.Int64
			ep := endpointOf(t, c.scheme+strings.TrimPrefix(server.url, "http"), TransportOptions{dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				return c.dial(ctx, network, address)
			}})
			for i, want := range c.dials {
				resp, err := ep.DoRepeatable(t.Context(), OpPoll, func() { again.Add(1) }, func(ctx context.Context) (*http.Request, error) {
					return ep.NewRequest(ctx, http.MethodPost, "/v1/tasks", []byte("{}"))
				})
				if (err != nil) != c.fails {
					t.Errorf("call %d: %v", i+1, err)
				}
				if err == nil {
					_, _ = ep.AppendBody(OpPoll, resp, nil)
				}
				if n := dials.Load(); n != want {
					t.Errorf("%d connections were made by call %d, want %d", n, i+1, want)
				}
			}
			if n := again.Load(); (n == 0) != c.fails {
				t.Errorf("%d calls were sent again", n)
			}
		})
	}
}

// lateConn hides a reset from its reader until the next request has been written.
type lateConn struct {
	net.Conn
	writes       int
	ended, woken chan struct{}
	wake         sync.Once
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		close(c.ended)
		<-c.woken
	}
	return n, err
}

func (c *lateConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 2 { // the first request takes two writes
		<-c.ended
	}
	return c.Conn.Write(p)
}

func (c *lateConn) Close() error {
	c.wake.Do(func() { close(c.woken) })
	return c.Conn.Close()
}

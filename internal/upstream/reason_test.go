package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestReasonNamesNoAddress checks that a reason hides the addresses of the resolver, of a proxy and
// of the upstream.
func TestReasonNamesNoAddress(t *testing.T) {
	t.Parallel()
	addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 53), Port: 53}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: errors.New("connect: connection refused")}
	for want, err := range map[string]error{
		"no such host":                                    &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "inner.example", Server: "10.0.0.53:53", IsNotFound: true}},
		"host name lookup failed":                         fmt.Errorf("wrapped: %w", &net.DNSError{Err: "read udp 10.0.0.7:1->10.0.0.53:53: i/o timeout", Name: "inner.example", Server: "10.0.0.53:53", IsTimeout: true}),
		"dial: connect: connection refused":               refused,
		"proxyconnect: dial: connect: connection refused": fmt.Errorf("net/http: %w", &net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}),
		"unexpected EOF":                                  io.ErrUnexpectedEOF,
		"read: connection reset by peer":                  &net.OpError{Op: "read", Net: "tcp", Addr: addr, Err: os.NewSyscallError("read", syscall.ECONNRESET)},
	} {
		if got := Reason(err); got != want {
			t.Errorf("Reason(%v) = %q, want %q", err, got, want)
		}
	}
}

// TestReasonRepeatsNoAnswer checks that a reason does not quote a server that speaks no HTTP.
func TestReasonRepeatsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"SSH-2.0-inner_9.6p1 banner\r\n",
		"HTTP/1.1 inner banner\r\n\r\n",
		"HTTP/inner 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\ninner banner\r\n\r\n",
		"HTTP/1.1 200 OK\r\n inner: banner\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: inner\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: inner\r\n\r\n",
	} {
		transport := NewTransport(TransportOptions{})
		_, err := ListModels(t.Context(), &Endpoint{Name: "test", BaseURL: serveText(t, answer), Transport: transport})
		transport.CloseIdleConnections()
		if err == nil || !strings.Contains(err.Error(), "the answer is not valid HTTP") || strings.Contains(err.Error(), "inner") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// TestReasonNamesAWrongScheme checks the error for an https address of a server that speaks HTTP.
func TestReasonNamesAWrongScheme(t *testing.T) {
	t.Parallel()
	transport := NewTransport(TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	address := strings.Replace(serveText(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), "http:", "https:", 1)
	_, err := ListModels(t.Context(), &Endpoint{Name: "test", BaseURL: address, Transport: transport})
	if err == nil || !strings.Contains(err.Error(), "the server speaks HTTP, but the URL begins with https") {
		t.Errorf("got %v", err)
	}
}

// serveText starts a server that answers every request with the same text and closes the
// connection.
func serveText(t *testing.T, answer string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

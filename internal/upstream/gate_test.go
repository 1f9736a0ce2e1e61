package upstream

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
)

// TestWhatCountsAsLeaving checks that only bytes of the body count as sent.
func TestWhatCountsAsLeaving(t *testing.T) {
	t.Parallel()
	text := []byte("something")
	for name, c := range map[string]struct {
		takes   int
		begun   bool
		written bool
	}{
		"the header block":          {len(text), false, false},
		"the body":                  {len(text), true, true},
		"a part of the body":        {3, true, true},
		"nothing of the body":       {0, true, false},
		"nothing of the headers":    {0, false, false},
		"a part of the header only": {3, false, false},
	} {
		b := newOnceBody(t.Context(), text)
		gate := &gatedConn{Conn: takingConn{takes: c.takes}}
		b.setConn(true, false)
		gate.request.Store(b)
		b.wroteHeaders()
		if c.begun {
			_, _ = b.Read(make([]byte, 1))
		}
		if n, _ := gate.Write(text); n != c.takes {
			t.Errorf("%s: %d bytes written", name, n)
		}
		if written := b.seal(); written != c.written {
			t.Errorf("%s counts as written: %v, want %v", name, written, c.written)
		}
		if n, err := gate.Write(text); !c.begun && (n != 0 || err == nil) {
			t.Errorf("%s: %d bytes left after the request was abandoned, %v", name, n, err)
		}
	}
}

// TestTheGoodbyeOfTLSIsNoRequest checks that close_notify does not count as the body if net/http
// closes a connection after reading the body but before writing it.
func TestTheGoodbyeOfTLSIsNoRequest(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	gate := &gatedConn{Conn: conn}
	trust := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	secured := tls.Client(gate, trust)
	if err := secured.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := newOnceBody(t.Context(), []byte("body"))
	b.setConn(true, false)
	gate.request.Store(b)
	_, _ = b.Read(make([]byte, 4))
	_ = secured.Close()
	if n, err := secured.Write([]byte("body")); n != 0 || err == nil || b.seal() {
		t.Errorf("%d bytes left after the goodbye, %v; or it counts as the request", n, err)
	}
}

type takingConn struct {
	net.Conn
	takes int
}

func (c takingConn) Write(p []byte) (int, error) {
	if c.takes < len(p) {
		return c.takes, syscall.EPIPE
	}
	return len(p), nil
}

package listener_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/listener/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// serve opens an address with o and answers every request with its protocol.
func serve(t testing.TB, o listener.Options) (addr string) {
	t.Helper()
	return serveLogged(t, o, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError))
}

// serveLogged is serve with a log for the server's errors.
func serveLogged(t testing.TB, o listener.Options, complaints *log.Logger) (addr string) {
	t.Helper()
	o.Addr, o.Protocols, o.Logger = "127.0.0.1:0", []string{"h2", "http/1.1"}, logger(t)
	l, err := listener.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ErrorLog: complaints,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// get sends a request on a new connection. It returns the body and the serial number of the
// server's certificate.
func get(t testing.TB, url string, client *tls.Config) (body, serial string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if res.TLS != nil {
		serial = res.TLS.PeerCertificates[0].SerialNumber.String()
	}
	return string(data), serial, err
}

type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lines) next(t testing.TB) string {
	t.Helper()
	select {
	case line := <-l:
		return line
	case <-time.After(time.Minute):
		t.Fatal("the log is told nothing")
		return ""
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := certtest.New(t, "ours"), certtest.New(t, "theirs")
	cert, key := ours.Issue("server")
	open := serve(t, listener.Options{TLS: listener.Files{Cert: cert, Key: key}})
	asks := listener.Options{TLS: listener.Files{Cert: cert, Key: key, ClientCA: theirs.File}}
	mutual := serve(t, asks)
	known, stranger := theirs.Client("client"), ours.Client("server-as-client")
	known.RootCAs = ours.Client("").RootCAs
	old := ours.Client("")
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for name, tc := range map[string]struct {
		addr   string
		client *tls.Config
		fails  string // empty for success
	}{
		"open":                              {open, ours.Client(""), ""},
		"open, to who trusts somebody else": {open, theirs.Client(""), "certificate signed by unknown authority"},
		"open, an old version":              {open, old, "protocol version"},
		"mutual, with a certificate":        {mutual, known, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, _, err := get(t, "https://"+tc.addr, tc.client)
			switch {
			case tc.fails == "" && (err != nil || body != "HTTP/2.0"):
				t.Errorf("%q, %v", body, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%q, %v; want an error that says %q", body, err, tc.fails)
			}
		})
	}
	// The client's handshake ends before the server checks the certificate, and a reset may
	// overtake the alert. Only the server's log names the cause reliably.
	for name, tc := range map[string]struct {
		client *tls.Config
		says   string
	}{
		"mutual, without":                       {ours.Client(""), "client didn't provide a certificate"},
		"mutual, with one of another authority": {stranger, "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(lines, 16)
			if body, _, err := get(t, "https://"+serveLogged(t, asks, log.New(said, "", 0)), tc.client); err == nil {
				t.Errorf("it was answered %q", body)
			}
			if line := said.next(t); !strings.Contains(line, tc.says) {
				t.Errorf("the server says %q, want %q", line, tc.says)
			}
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		t.Parallel()
		body, _, err := get(t, "http://"+open, nil)
		if err != nil || !strings.Contains(body, "HTTPS") {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// TestFilesAreReadAgain proves that a new certificate is served without a restart.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	cert, key := ca.Issue("server")
	addr := serve(t, listener.Options{TLS: listener.Files{Cert: cert, Key: key}})
	serial := func() string {
		_, serial, err := get(t, "https://"+addr, ca.Client(""))
		if err != nil {
			t.Fatal(err)
		}
		return serial
	}
	first := serial()
	ca.Issue("server")
	deadline := time.Now().Add(time.Minute)
	for serial() == first {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not shown")
		}
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	cert, key := ca.Issue("server")
	_, other := ca.Issue("other")
	for name, tc := range map[string]struct {
		files listener.Files
		want  string
	}{
		"no file":          {listener.Files{Cert: cert + "x", Key: key}, "no such file"},
		"another's key":    {listener.Files{Cert: cert, Key: other}, "private key does not match public key"},
		"no authority":     {listener.Files{Cert: cert, Key: key, ClientCA: key}, "contains no PEM certificate"},
		"authority absent": {listener.Files{Cert: cert, Key: key, ClientCA: key + "x"}, "no such file"},
	} {
		if _, err := listener.Open(t.Context(), listener.Options{Addr: "127.0.0.1:0", TLS: tc.files, Logger: logger(t)}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConnectionsAreBounded proves that a connection beyond the limit waits until another one
// closes.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 3
	addr := serve(t, listener.Options{MaxConnections: most})
	open := make([]net.Conn, 0, most+1)
	dial := func() net.Conn {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		open = append(open, c)
		return c
	}
	answered := func(c net.Conn, within time.Duration) bool {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	for range most {
		if !answered(dial(), time.Minute) {
			t.Fatal("a connection within the bound is not served")
		}
	}
	last := dial()
	if answered(last, 200*time.Millisecond) {
		t.Fatal("one too many is served")
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	if !answered(last, time.Minute) {
		t.Error("the place of a closed connection is not used again")
	}
}

// TestCloseEndsAccept proves that Close ends an Accept that waits for a slot.
func TestCloseEndsAccept(t *testing.T) {
	t.Parallel()
	l, err := listener.Open(t.Context(), listener.Options{Addr: "127.0.0.1:0", MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	taken, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("Accept goes on")
	}
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
	if err := taken.Close(); err == nil { // a second Close must not free a second slot
		t.Error("a second Close is none")
	}
}

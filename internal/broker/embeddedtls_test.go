package broker_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/subject"
)

// logWatcher waits for a word in a log.
type logWatcher struct {
	word  string
	once  sync.Once
	found chan struct{}
}

func (e *logWatcher) Write(p []byte) (int, error) {
	if e.word != "" && bytes.Contains(p, []byte(e.word)) {
		e.once.Do(func() { close(e.found) })
	}
	return len(p), nil
}

func (e *logWatcher) await(t testing.TB) {
	t.Helper()
	select {
	case <-e.found:
	case <-time.After(brokertest.Patience):
		t.Errorf("the log does not say %q", e.word)
	}
}

// TestEmbeddedServerWithTLS proves that TCP clients need TLS, with a client certificate if
// required, and that genbus itself connects in-process.
func TestEmbeddedServerWithTLS(t *testing.T) {
	t.Parallel()
	ca, clients := certtest.New(t, "ca"), certtest.New(t, "clients")
	cert, key := ca.Issue("server")
	known := clients.Client("client")
	known.RootCAs = ca.Client("").RootCAs
	for name, tc := range map[string]struct {
		authority string
		client    *tls.Config // nil for no TLS
		fails     string      // empty for success
		says      string      // in the server's log, if the client may not learn the reason
	}{
		"with TLS":                            {"", ca.Client(""), "", ""},
		"without TLS":                         {"", nil, "", ""},
		"a server that the client trusts not": {"", clients.Client(""), "unknown authority", ""},
		"mutual, with a certificate":          {clients.File, known, "", ""},
		"mutual, without":                     {clients.File, ca.Client(""), "", "client didn't provide a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secure, err := listener.Secure(listener.Files{Cert: cert, Key: key, ClientCA: tc.authority}, brokertest.Logger(t))
			if err != nil {
				t.Fatal(err)
			}
			ear := &logWatcher{word: tc.says, found: make(chan struct{})}
			b, err := broker.Open(t.Context(), broker.Options{
				Names: subject.Default(), Logger: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), ear), nil)),
				Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true, Listen: "127.0.0.1:0", TLS: secure},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := b.Streams().Ensure(t.Context()); err != nil {
				t.Errorf("genbus itself: %v", err)
			}
			url := b.ClientURL()
			if tc.client == nil {
				speakPlainly(t, strings.TrimPrefix(url, "tls://"))
				return
			}
			nc, err := nats.Connect(url, nats.NoReconnect(), nats.Timeout(brokertest.Patience), nats.Secure(tc.client))
			if err == nil {
				err = nc.FlushTimeout(brokertest.Patience)
				nc.Close()
			}
			switch {
			case tc.says != "":
				// The client's handshake ends before the server checks for a certificate, and the
				// alert may arrive after the reset.
				if err == nil {
					t.Errorf("%s: a client without a certificate is let in", url)
				}
				ear.await(t)
			case tc.fails == "" && err != nil:
				t.Errorf("%s: %v", url, err)
			case tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%s: %v; want an error that says %q", url, err, tc.fails)
			}
		})
	}
}

// speakPlainly is a client that ignores the server's demand for TLS.
func speakPlainly(t *testing.T, addr string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(brokertest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(conn) // the error reflects how the server closed it
	if !bytes.Contains(said, []byte(`"tls_required":true`)) || bytes.Contains(said, []byte("PONG")) {
		t.Errorf("the server said %q", said)
	}
}

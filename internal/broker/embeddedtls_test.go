package broker_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/subject"
)

// anyhow is how a client without a certificate fails. Its handshake is over before the
// server has looked for one, and the alert may come after the reset of the connection
// that follows it.
const anyhow = "anyhow"

// TestEmbeddedServerWithTLS: clients on TCP need it, with a certificate of their
// own where one is asked for; genbus itself is inside.
func TestEmbeddedServerWithTLS(t *testing.T) {
	t.Parallel()
	ca, clients := certtest.New(t, "ca"), certtest.New(t, "clients")
	cert, key := ca.Issue("server")
	known := clients.Client("client")
	known.RootCAs = ca.Client("").RootCAs
	for name, tc := range map[string]struct {
		authority string
		client    *tls.Config // nil: no TLS
		fails     string      // empty: it does not
	}{
		"with TLS":                            {"", ca.Client(""), ""},
		"without TLS":                         {"", nil, ""},
		"a server that the client trusts not": {"", clients.Client(""), "unknown authority"},
		"mutual, with a certificate":          {clients.File, known, ""},
		"mutual, without":                     {clients.File, ca.Client(""), anyhow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secure, err := listener.Secure(listener.Files{Cert: cert, Key: key, ClientCA: tc.authority}, brokertest.Logger(t))
			if err != nil {
				t.Fatal(err)
			}
			b, err := broker.Open(t.Context(), broker.Options{
				Names: subject.Default(), Logger: brokertest.Logger(t),
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
			if err := b.EnsureStreams(t.Context()); err != nil {
				t.Errorf("genbus itself: %v", err)
			}
			url := b.ClientURL()
			if tc.client == nil {
				speakPlainly(t, strings.TrimPrefix(url, "tls://"))
				return
			}
			nc, err := nats.Connect(url, nats.NoReconnect(), nats.Timeout(10*time.Second), nats.Secure(tc.client))
			if err == nil {
				err = nc.FlushTimeout(10 * time.Second)
				nc.Close()
			}
			switch {
			case tc.fails == "" && err != nil:
				t.Errorf("%s: %v", url, err)
			case tc.fails != "" && (err == nil || tc.fails != anyhow && !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("%s: %v; want an error that says %q", url, err, tc.fails)
			}
		})
	}
}

// speakPlainly is a client that ignores what the server wants.
func speakPlainly(t *testing.T, addr string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(conn) // the error is how the server ended it
	if !bytes.Contains(said, []byte(`"tls_required":true`)) || bytes.Contains(said, []byte("PONG")) {
		t.Errorf("the server said %q", said)
	}
}

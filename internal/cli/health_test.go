package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/telemetry"
)

// healthServer answers like a service that has lost JetStream. It uses TLS if security is set.
func healthServer(t *testing.T, security *tls.Config) net.Addr {
	t.Helper()
	var h telemetry.Health
	h.Add("jetstream", func(context.Context) error { return errors.New("not connected to NATS") })
	mux := http.NewServeMux()
	mux.Handle("/healthz", h.Healthz())
	mux.Handle("/readyz", h.Readyz())
	mux.Handle("/readyz/jobs", h.JobsReadyz())
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug) // hide refused handshakes
	if s.TLS = security; security == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s.Listener.Addr()
}

// asked runs the command with a configuration file of these lines.
func asked(t *testing.T, c healthCommand, lines ...string) (string, error) {
	t.Helper()
	if len(lines) > 0 {
		c.Config = filepath.Join(t.TempDir(), "genbus.yaml")
		if err := os.WriteFile(c.Config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Timeout = brokertest.Patience
	var out bytes.Buffer
	err := c.Run(t.Context(), &out)
	return strings.TrimSpace(out.String()), err
}

func TestHealthOfWhatIsConfigured(t *testing.T) {
	t.Parallel()
	addr := healthServer(t, nil).String()
	line := "http: {addr: \"" + addr + "\"}"
	if got, err := asked(t, healthCommand{Live: true}, line); err != nil || got != "ok" {
		t.Errorf("alive: %q, %v", got, err)
	}
	const want = "not_ready: jetstream: not connected to NATS"
	if _, err := asked(t, healthCommand{Jobs: true}, line); err == nil || err.Error() != want || command.ExitCode(err) != command.ExitFailed {
		t.Errorf("ready for jobs: %v", err)
	}
	if _, err := asked(t, healthCommand{Jobs: true, URL: "http://" + addr}); err == nil || err.Error() != want {
		t.Errorf("ready for jobs, by --url: %v", err)
	}
	// The HEALTHCHECK of the image.
	if got, err := asked(t, healthCommand{}, line); err != nil || got != "ready" {
		t.Errorf("ready: %q, %v", got, err)
	}
}

// TestHealthOfWhatRuns proves that mistakes elsewhere in the configuration file do not make a
// running process unhealthy.
func TestHealthOfWhatRuns(t *testing.T) {
	t.Parallel()
	addr := healthServer(t, nil).String()
	line := "http: {addr: \"" + addr + "\"}"
	if got, err := asked(t, healthCommand{Live: true}, line, "api_kyes: []", "upstreams: {a: {key_file: /no/such/file}}"); err != nil || got != "ok" {
		t.Errorf("mistakes elsewhere: %q, %v", got, err)
	}
}

// TestHealthOfTheSandbox proves that the command works for the sandbox, as in deploy/compose.yaml.
func TestHealthOfTheSandbox(t *testing.T) {
	t.Parallel()
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = up.Close() }()
	if got, err := asked(t, healthCommand{URL: up.URL()}); err != nil || got != "ready" {
		t.Errorf("ready: %q, %v", got, err)
	}
}

// TestHealthByTLS proves that the command accepts the configured certificate under any name, and
// rejects others.
func TestHealthByTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	cert, key := ca.Issue("server")
	other, otherKey := ca.Issue("other")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	addr := healthServer(t, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}).String()
	lines := func(cert, key string) string {
		return fmt.Sprintf("http: {addr: %q, tls: {cert_file: %s, key_file: %s}}", addr, cert, key)
	}
	if got, err := asked(t, healthCommand{Live: true}, lines(cert, key)); err != nil || got != "ok" {
		t.Errorf("its own certificate: %q, %v", got, err)
	}
	if _, err := asked(t, healthCommand{Live: true}, lines(other, otherKey)); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("another certificate: %v", err)
	}
	if got, err := asked(t, healthCommand{Live: true, URL: "https://" + addr, CA: ca.File}); err != nil || got != "ok" {
		t.Errorf("--ca: %q, %v", got, err)
	}
	if _, err := asked(t, healthCommand{Live: true, URL: "https://" + addr}); err == nil {
		t.Error("an authority that nobody trusts was trusted")
	}
}

// TestHealthOfAService proves that the command works with a service that requires client
// certificates.
func TestHealthOfAService(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	s := secured(t, ca, ca.File)
	cert, key := ca.Issue("probe")
	ask := healthCommand{URL: "https://" + s.HTTPAddr().String(), CA: ca.File, Cert: cert, Key: key}
	if got, err := asked(t, ask); err != nil || got != "ready" {
		t.Errorf("with a certificate: %q, %v", got, err)
	}
	ask.Cert, ask.Key = "", ""
	if _, err := asked(t, ask); err == nil || command.ExitCode(err) != command.ExitFailed {
		t.Errorf("without one: %v", err)
	}
}

func TestHealthFindsTheAddress(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"0.0.0.0:8080": "http://127.0.0.1:8080", ":8080": "http://127.0.0.1:8080", "[::]:8080": "http://[::1]:8080",
		"127.0.0.1:80": "http://127.0.0.1:80", "10.1.2.3:80": "http://10.1.2.3:80", "localhost:80": "http://localhost:80", "127.0.0.1:0": "",
	} {
		base, _, err := configured(config.HTTP{Addr: addr})
		if want == "" {
			if !command.IsUsage(err) {
				t.Errorf("%s: %v", addr, err)
			}
			continue
		}
		if err != nil || base.String() != want {
			t.Errorf("%s is asked at %v, want %s (%v)", addr, base, want, err)
		}
	}
}

// TestHealthSaysWhatIsWrong proves that usage errors differ from errors of a service that does not
// answer.
func TestHealthSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	for _, c := range []struct {
		command healthCommand
		usage   bool
		says    string
	}{
		{healthCommand{URL: "localhost:8080"}, true, "--url"},
		{healthCommand{URL: "https://127.0.0.1:1", CA: "/no/such/file"}, true, "--ca"},
		{healthCommand{URL: "https://127.0.0.1:1", Cert: "/no/such/file"}, true, "--cert"},
		{healthCommand{URL: "http://127.0.0.1:1"}, false, "did not answer"},
		{healthCommand{URL: stranger.URL}, false, "404 Not Found, which is not a genbus answer"},
	} {
		_, err := asked(t, c.command)
		if err == nil || command.IsUsage(err) != c.usage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.command, err)
		}
	}
}

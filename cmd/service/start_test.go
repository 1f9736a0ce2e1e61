package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/service"
)

// tried starts and stops a service. It returns the log and the error.
func tried(t *testing.T, change func(*config.Config)) (logged string, err error) {
	t.Helper()
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = t.TempDir(), "127.0.0.1:0", false
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	change(cfg)
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := service.New(ctx, cfg, slog.New(slog.NewTextHandler(&log, nil)), "test")
	if err == nil {
		cancel()
		err = s.Run(ctx)
	}
	return log.String(), err
}

// TestTLSFilesAreNamed proves that a start that fails because of a TLS file names its field.
func TestTLSFilesAreNamed(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	cert, key := ca.Issue("server")
	_, other := ca.Issue("other")
	broken := filepath.Join(t.TempDir(), "broken.pem")
	if err := os.WriteFile(broken, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, files := range map[string]config.ServerTLS{
		"cert_file":      {CertFile: broken, KeyFile: key},
		"key_file":       {CertFile: cert, KeyFile: other},
		"client_ca_file": {CertFile: cert, KeyFile: key, ClientCAFile: broken},
	} {
		for path, change := range map[string]func(*config.Config){
			"http.tls." + field: func(c *config.Config) { c.HTTP.TLS = files },
			"grpc.tls." + field: func(c *config.Config) { c.GRPC.TLS = files },
			"nats.tls." + strings.TrimPrefix(field, "client_"): func(c *config.Config) {
				c.NATS.TLS = config.TLS{CertFile: files.CertFile, KeyFile: files.KeyFile, CAFile: files.ClientCAFile}
			},
		} {
			if _, err := tried(t, change); err == nil || !strings.HasPrefix(err.Error(), path+": tls: ") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestStartAndStopAreLogged proves that the log warns of a tenant without a valid key, records a
// clean stop, and contains no key.
func TestStartAndStopAreLogged(t *testing.T) {
	t.Parallel()
	logged, err := tried(t, func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret("acme-0123456789abcdef"), NotAfter: time.Now().Add(-time.Hour).Format(time.RFC3339)}}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`level=WARN msg="refusing tenant, all its API keys have expired" tenant=acme key="api_keys[0] (variable ACME)"`, `level=INFO msg=stopped duration=`} {
		if !strings.Contains(logged, want) {
			t.Errorf("the log has no %s:\n%s", want, logged)
		}
	}
	if strings.Contains(logged, "0123456789abcdef") {
		t.Error("the log has a key")
	}
}

package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/service/servicetest"
	"github.com/genbus/genbus/internal/telemetry"
)

// secured runs a service with TLS on every address.
func secured(t *testing.T, ca *certtest.Authority, clientCA string) *service.Service {
	t.Helper()
	cert, key := ca.Issue("server")
	return servicetest.New(t, servicetest.Options{Change: func(c *config.Config) {
		c.HTTP.TLS = config.ServerTLS{CertFile: cert, KeyFile: key, ClientCAFile: clientCA}
		c.GRPC.TLS = c.HTTP.TLS
		c.NATS.TLS = config.TLS{CertFile: cert, KeyFile: key, CAFile: clientCA}
	}}).Service
}

// TestBannerStaysOutOfTheLog proves that the banner is not written into a JSON log.
func TestBannerStaysOutOfTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	device := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	terminal := device("/dev/zero") // detected as a terminal
	for name, row := range map[string]struct {
		out, log *os.File
		format   string
		want     bool
	}{
		"a terminal":                     {terminal, file("log"), telemetry.FormatJSON, true},
		"nowhere, as under a supervisor": {device(os.DevNull), file("log"), telemetry.FormatJSON, false},
		"a file of its own":              {file("out"), file("log"), telemetry.FormatAuto, true},
		"the log's file":                 {file("log"), file("log"), telemetry.FormatAuto, false},
		"the log's file, with text":      {file("log"), file("log"), telemetry.FormatText, true},
		"whoever collects JSON":          {file("out"), file("log"), telemetry.FormatJSON, false},
	} {
		if got := fits(row.out, row.log, row.format); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCommandOfGoRun proves that programCommand hides the temporary path of "go run".
func TestCommandOfGoRun(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/tmp/go-build4033909374/b001/exe/service": "go run ./cmd/service",
		`C:\Temp\go-build40\b001\exe\genbus.exe`:   "go run ./cmd/genbus",
		"/home/a/.cache/go-build/43/435600b3cca778de9751f14b88e4590891e893f95c6b20ca00ab50d16b2c8829-d/service": "go run ./cmd/service",
		"./genbus":                  "./genbus",
		"genbus":                    "genbus",
		"/home/a/go-build/b/genbus": "/home/a/go-build/b/genbus",
	} {
		if got := programCommand(program); got != want {
			t.Errorf("%s: %s", program, got)
		}
	}
}

func TestServerFlag(t *testing.T) {
	t.Setenv(command.EnvServer, "")
	for server, want := range map[string]string{"127.0.0.1:9090": "", "127.0.0.1:9091": " --server 127.0.0.1:9091"} {
		if got := serverFlag(server); got != want {
			t.Errorf("%s: %q", server, got)
		}
	}
	t.Setenv(command.EnvServer, "genbus.example")
	if got := serverFlag(command.DefaultServer); got != " --server 127.0.0.1:9090" {
		t.Errorf("with GENBUS_SERVER: %q", got)
	}
}

// TestBannerSaysHTTPS proves that the banner uses https with TLS.
func TestBannerSaysHTTPS(t *testing.T) {
	t.Parallel()
	said := banner{secured(t, certtest.New(t, "ca"), "")}.String()
	for _, want := range []string{"HTTP  https://127.0.0.1:", "Web   https://127.0.0.1:", "(TLS)", `curl -N --cacert "$CA" https://127.0.0.1:`, ` --ca "$CA" --model sandbox-video `, "CA: a file of", "NATS  tls://127.0.0.1:"} {
		if !strings.Contains(said, want) {
			t.Errorf("the banner does not say %q:\n%s", want, said)
		}
	}
}

// TestSandboxBanner proves that the banner names the sample file only for the default address.
func TestSandboxBanner(t *testing.T) {
	t.Parallel()
	for url, example := range map[string]bool{"http://127.0.0.1:8090": true, "http://127.0.0.1:9999": false} {
		got := sandboxBanner(url)
		if !strings.Contains(got, "GENBUS_UPSTREAM_URL="+url+" "+programCommand(os.Args[0])+" serve") || strings.Contains(got, "examples/sandbox.yaml") != example || !strings.Contains(got, url+"/tasks") {
			t.Errorf("%s:\n%s", url, got)
		}
	}
}

// TestBannerAsksForWhatTheServerWants proves that the sample commands include an API key or a
// client certificate if required.
func TestBannerAsksForWhatTheServerWants(t *testing.T) {
	t.Parallel()
	withKey := func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret("acme-0123456789abcdef")}}
	}
	plain := banner{servicetest.New(t, servicetest.Options{Upstream: "http://127.0.0.1:1", Change: withKey}).Service}.String()
	for _, want := range []string{
		"Try it (KEY: an API key):\n  curl -N http://", ` -H "Authorization: Bearer $KEY" \`, `GENBUS_API_KEY="$KEY" `, " submit video --server 127.0.0.1:", "req genbus.call.video.acme",
	} {
		if !strings.Contains(plain, want) {
			t.Errorf("the banner does not say %q:\n%s", want, plain)
		}
	}
	ca := certtest.New(t, "ca")
	mutual := banner{secured(t, ca, ca.File)}.String()
	for _, want := range []string{`--cert "$CERT" --key "$CERT_KEY" https://`, ` --ca "$CA" --cert "$CERT" --key "$CERT_KEY" --model `, "a client certificate and its key):"} {
		if !strings.Contains(mutual, want) {
			t.Errorf("the banner does not say %q:\n%s", want, mutual)
		}
	}
}

// TestBannerNamesAHostThatCanBeCalled proves that sample commands never contain an unspecified
// address.
func TestBannerNamesAHostThatCanBeCalled(t *testing.T) {
	t.Parallel()
	all := &net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}
	for _, row := range []struct {
		addr net.Addr
		tls  config.ServerTLS
		want string
	}{
		{all, config.ServerTLS{}, "localhost:8080"},
		{all, config.ServerTLS{CertFile: "c", KeyFile: "k"}, "$HOST:8080"},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, config.ServerTLS{}, "127.0.0.1:1"},
	} {
		if got := reachable(row.addr, row.tls); got != row.want {
			t.Errorf("%v is called as %q, want %q", row.addr, got, row.want)
		}
	}
}

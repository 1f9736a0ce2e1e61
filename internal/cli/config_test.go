package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/listener/certtest"
)

func checked(t *testing.T, text string) (out string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "genbus.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	err = configCheckCommand{File: path}.Run(&b)
	return b.String(), err
}

const twoRoutes = `
upstreams:
  a: {base_url: http://127.0.0.1:1, keys: [{name: one, key_file: KEY}, {name: two, key_file: KEY}]}
routes:
- {name: v, kind: video, upstream: a, models: [m]}
- {name: c, kind: chat, upstream: a, models: [m]}
nats: {data_dir: /no/such/directory}
`

// TestConfigCheck proves that a valid configuration passes without a reachable upstream or an
// existing data directory.
func TestConfigCheck(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("upstream-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := checked(t, strings.ReplaceAll(twoRoutes, "KEY", key)+
		"api_keys: [{tenant: acme, key_sha256: "+strings.Repeat("ab", 32)+", not_after: 2020-01-01T00:00:00Z}]\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = "warning: api_keys[0] of tenant acme expired at 2020-01-01T00:00:00Z; genbus refuses the tenant, which has no other key\n" +
		"route v calls a: POST http://127.0.0.1:1/v1/video/generations\nroute c calls a: POST http://127.0.0.1:1/v1/chat/completions\n" +
		"Configuration OK: 2 routes (1 video, 1 chat), 1 upstream with 2 keys, 1 tenant with 1 API key, 0 operator keys, " +
		"HTTP 127.0.0.1:8080, gRPC 127.0.0.1:9090, NATS embedded at 127.0.0.1:4222\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// TestConfigCheckCountsUpstreamKeys checks that every kind of upstream key counts as one.
func TestConfigCheckCountsUpstreamKeys(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("upstream-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	single, several := "key_file: "+key, "keys: [{name: one, key_file: "+key+"}, {name: two, key_file: "+key+"}]"
	pair := "auth: signed, access_key_file: " + key + ", secret_key_file: " + key
	for want, upstreams := range map[string][]string{
		"1 upstream with 0 keys": {""}, "1 upstream with 1 key,": {single}, "1 upstream with 2 keys": {several},
		"2 upstreams with 3 keys": {several, single}, "2 upstreams with 1 key,": {pair, ""},
	} {
		text := "upstreams:\n"
		routes := "routes:\n"
		for i, u := range upstreams {
			text += fmt.Sprintf("  u%d: {base_url: http://127.0.0.1:1, %s}\n", i, u)
			routes += fmt.Sprintf("- {name: r%d, kind: video, protocol: kling, upstream: u%d, models: [m%d]}\n", i, i, i)
		}
		if out, err := checked(t, text+routes); err != nil || !strings.Contains(out, ", "+want) {
			t.Errorf("want %q: %q, %v", want, out, err)
		}
	}
}

func TestConfigCheckSaysEveryProblem(t *testing.T) {
	t.Parallel()
	out, err := checked(t, "nats:\n  ulr: x\nhttp:\n  addr: here\n  tsl: {}\n")
	if err == nil || out != "" {
		t.Fatalf("%q, %v", out, err)
	}
	for _, want := range []string{
		"genbus.yaml:2: nats.ulr is not a known key; did you mean url?",
		`genbus.yaml:4: http.addr is "here"; want host:port`,
		"genbus.yaml:5: http.tsl is not a known key; did you mean tls?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestConfigCheckReadsCertificates proves that "config check" finds a key that does not match its
// certificate.
func TestConfigCheckReadsCertificates(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	cert, _ := ca.Issue("server")
	_, other := ca.Issue("other")
	files := "{cert_file: " + cert + ", key_file: " + other + "}"
	_, err := checked(t, "http: {tls: "+files+"}\ngrpc: {tls: "+files+"}\nnats: {tls: "+files+"}\n")
	for _, want := range []string{"http.tls.key_file: tls: ", "grpc.tls.key_file: tls: ", "nats.tls.key_file: tls: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestConfigExampleIsGood proves that "config check" accepts the output of "config example".
func TestConfigExampleIsGood(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := (configExampleCommand{}).Run(&b); err != nil {
		t.Fatal(err)
	}
	if out, err := checked(t, b.String()); err != nil || !strings.Contains(out, "2 routes (1 video, 1 chat), 1 upstream") {
		t.Errorf("%q, %v", out, err)
	}
}

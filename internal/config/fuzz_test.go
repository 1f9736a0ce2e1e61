package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad checks that Load never panics, never shows a secret in an error, and yields a
// configuration that survives Effective.
func FuzzLoad(f *testing.F) {
	paths, _ := filepath.Glob(filepath.Join(examples, "*.yaml"))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, text := range []string{
		"", "{}", "a: &a [*a]", "a: &a {<<: *a}", "http: {addr: &x '127.0.0.1:1'}\ngrpc: {addr: *x}", "? [a]\n: b", "!!binary x",
		"upstreams: {u: {base_url: http://h, key_env: K}}", "routes: [{models: ['*', a*, b]}]", "nats: {url: 'nats://a@b'}", "--- a\n--- b", "\xff", "'",
		"upstreams: {\"a\\nb\": {headers: {\"\": x}}}", "chat: {max_attempts: 99999999999999999999}", "log: !!map {level: info}",
		"tenants: {a: {max_jobs: ~, burst: 3}, b: &b {}, c: *b}\nlimits: {tenant: {requests_per_second: 0.5}}", "http: {tls: {cert_file: /key, key_file: /key}}",
		"api_keys: [{tenant: a, key_sha256: " + sha("x") + ", not_after: 2026-12-01T00:00:00Z}]\noperator_keys: [{name: o, key_env: K}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		const secret = "zq7secretzq7"
		source := Source{
			File:     "c.yaml",
			Environ:  []string{"K=" + secret, "UPSTREAM_KEY=" + secret},
			ReadFile: files{"c.yaml": string(content), "/key": secret}.read,
		}
		c, err := Load(source)
		if err != nil {
			if lines := strings.Count(err.Error(), "\n"); lines > maxProblems || strings.Contains(err.Error(), secret) {
				t.Fatalf("%d lines:\n%v", lines, err)
			}
			return
		}
		text, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		source.ReadFile = files{"c.yaml": string(text), "/key": secret}.read
		again, err := Load(source)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := diff(c, again); d != "" {
			t.Fatalf("%s\n%s", d, text)
		}
	})
}

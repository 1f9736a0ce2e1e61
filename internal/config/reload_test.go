package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// running is the configuration of a process and its source.
type running struct {
	*Config
	files  files
	source Source
}

func startWith(t *testing.T, text string, more ...string) running {
	t.Helper()
	r := running{files: files{"c.yaml": text}}
	for i := 0; i < len(more); i += 2 {
		r.files[more[i]] = more[i+1]
	}
	r.source = Source{File: "c.yaml", ReadFile: r.files.read, Environ: []string{"A=key-of-a-0123456789", "B=key-of-b-0123456789"}}
	c, err := Load(r.source)
	if err != nil {
		t.Fatal(err)
	}
	r.Config = c
	return r
}

func (r running) reload(t *testing.T, text string) (*Config, Changes) {
	t.Helper()
	r.files["c.yaml"] = text
	next, changes, err := r.Reload(r.source)
	if err != nil {
		t.Fatal(err)
	}
	return next, changes
}

func wantChanges(t *testing.T, got, want Changes) {
	t.Helper()
	for name, pair := range map[string][2][]string{
		"added": {got.Added, want.Added}, "removed": {got.Removed, want.Removed}, "changed": {got.Changed, want.Changed}, "restart": {got.Restart, want.Restart},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s %q, want %q", name, pair[0], pair[1])
		}
	}
}

const before = `
upstreams:
  u: {base_url: http://h, key_file: /key}
  other: {base_url: http://h}
routes:
- {name: v, kind: video, upstream: u, models: [m]}
- {name: old, kind: chat, upstream: other, models: [m]}
api_keys:
- {tenant: acme, key_env: A}
- {tenant: globex, key_sha256: ` + hashOne + `}
tenants: {acme: {max_jobs: 5}}
`

const (
	hashOne = "1111111111111111111111111111111111111111111111111111111111111111"
	hashTwo = "2222222222222222222222222222222222222222222222222222222222222222"
)

func TestReloadSaysWhatChanges(t *testing.T) {
	t.Parallel()
	r := startWith(t, before, "/key", "one\n")
	next, changes := r.reload(t, before)
	wantChanges(t, changes, Changes{})
	if !changes.None() {
		t.Error("something changed")
	}
	if d := diff(r.Config, next); d != "" {
		t.Errorf("another configuration: %s", d)
	}
	r.files["/key"] = "two\n"
	next, changes = r.reload(t, `
upstreams:
  u: {base_url: http://elsewhere, key_file: /key}
  other: {base_url: http://h}
routes:
- {name: v, kind: video, upstream: u, models: [m, n], max_in_flight: 7, timeouts: {create: 5s}, ack_wait: 10s, draining: true}
- {name: old, kind: chat, upstream: other, models: [m]}
api_keys:
- {tenant: acme, key_env: B}
- {tenant: globex, key_sha256: `+hashTwo+`}
operator_keys: [{name: ops, key_env: A}]
tenants: {acme: {max_jobs: 6}}
chat: {max_attempts: 3}
limits: {tenant: {max_jobs: 9}, stream_time: 2h, list_index: 200}
log: {level: debug}
nats: {data_dir: /elsewhere, streams: {dead: {max_age: 1h}}}
http: {addr: '127.0.0.1:1', segments: {kling: k}}
`)
	wantChanges(t, changes, Changes{
		Added:   []string{"API key of tenant acme (variable B)", "key of operator ops (variable A)"},
		Removed: []string{"API key of tenant acme (variable A)"},
		Changed: []string{
			"upstream u (base_url, key)", "route v (video) (models, max_in_flight, timeouts, draining)", "tenant acme (max_jobs)",
			"API key of tenant globex (a hash) (key_sha256, key)", "chat.max_attempts", "limits.stream_time", "limits.tenant.max_jobs", "log.level",
		},
		Restart: []string{"nats.data_dir", "nats.streams.dead.max_age", "http.addr", "http.segments", "limits.list_index", "ack_wait of route v"},
	})
	if tenant, ok := next.Tenant("key-of-b-0123456789"); !ok || tenant != "acme" {
		t.Errorf("the new key is %q, %v", tenant, ok)
	}
	if _, ok := next.Tenant("key-of-a-0123456789"); ok {
		t.Error("the old key is taken")
	}
	if tenant, ok := r.Tenant("key-of-a-0123456789"); !ok || tenant != "acme" {
		t.Errorf("what runs was changed: the old key is %q, %v", tenant, ok)
	}
	if v, ok := next.Route(KindVideo, "n"); !ok || v.MaxInFlight != 7 || v.AckWait != time.Minute {
		t.Errorf("the route is %+v", v)
	}
	if next.HTTP.Addr != r.HTTP.Addr || next.NATS.DataDir != r.NATS.DataDir || next.Upstreams["u"].Key.Reveal() != "two" {
		t.Error("another address or directory, or the key from before")
	}
	for _, list := range [][]string{changes.Added, changes.Removed, changes.Changed, changes.Restart} {
		if text := strings.Join(list, " "); strings.Contains(text, "key-of-") || strings.Contains(text, hashTwo[:8]) {
			t.Errorf("a secret in %s", text)
		}
	}
}

// TestReloadRefuses checks that a reload must be valid both for a new process and for the running
// one.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	open := before + "http: {addr: '0.0.0.0:8080'}\n"
	for _, tc := range []struct{ name, start, text, want string }{
		{"a typing error", before, before + "chta: {}\n", "c.yaml:12: chta is not a known key; did you mean chat?"},
		{"what only a restart takes", before, before + "http: {addr: here}\n", `c.yaml:12: http.addr is "here"; want host:port`},
		{"no keys at an open address, which would be closed", open, upstreamU + "http: {addr: '127.0.0.1:8080'}\n", `c.yaml:2: http.addr is "0.0.0.0:8080"; want a loopback address`},
	} {
		r := startWith(t, tc.start, "/key", "one")
		r.files["c.yaml"] = tc.text
		next, changes, err := r.Reload(r.source)
		wantLines(t, err, tc.want)
		if next != nil || !changes.None() || changes.Restart != nil {
			t.Errorf("%s: something is to change: %+v", tc.name, changes)
		}
	}
}

// TestReloadRefusesOtherRoutes checks that added, removed or changed routes and upstreams are
// refused by name.
func TestReloadRefusesOtherRoutes(t *testing.T) {
	t.Parallel()
	for replace, want := range map[string]string{
		"- {name: v,||- {name: w,":                                               "route w (video) is new, route v (video) is gone",
		"  u: {||  another: {base_url: http://h}\n  u: {":                        "upstream another is new",
		"upstream: other, models||upstream: u, models":                           "route old has other upstreams",
		"upstream: other, models||upstreams: [{name: other}, {name: u}], models": "route old has other upstreams",
	} {
		r := startWith(t, before, "/key", "one")
		from, to, _ := strings.Cut(replace, "||")
		r.files["c.yaml"] = strings.Replace(before, from, to, 1)
		next, changes, err := r.Reload(r.source)
		wantLines(t, err, "a reload cannot change routes or upstreams this way: "+want+"; restart the replicas")
		if next != nil || !changes.None() {
			t.Errorf("%s: something is to change: %+v", replace, changes)
		}
	}
}

// TestReloadWithSandbox checks that a reload keeps the process's sandbox, which is not in the file.
func TestReloadWithSandbox(t *testing.T) {
	t.Parallel()
	r := startWith(t, before, "/key", "one")
	if err := r.AddSandbox("http://127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	next, changes := r.reload(t, before+"log: {level: debug}\n")
	wantChanges(t, changes, Changes{Changed: []string{"log.level"}})
	if route, ok := next.Route(KindVideo, "sandbox-video"); !ok || route.Upstream != SandboxUpstream {
		t.Errorf("the sandbox is gone: %+v", route)
	}
}

// TestReloadOfATrial checks that a reload keeps the effects of ShowAll.
func TestReloadOfATrial(t *testing.T) {
	t.Parallel()
	r := startWith(t, "log: {level: info}\n", "/key", "one")
	if err := r.AddSandbox("http://127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	r.ShowAll()
	next, changes := r.reload(t, "log: {level: debug}\n")
	wantChanges(t, changes, Changes{Changed: []string{"log.level"}})
	if route, ok := next.Route(KindVideo, "sandbox-video"); !ok || !route.KeepRequests || !next.OperatorsReadBodies {
		t.Errorf("operators read bodies: %v, of route %+v", next.OperatorsReadBodies, route)
	}
}

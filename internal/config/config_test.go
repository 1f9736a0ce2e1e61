package config

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type files map[string]string

func (f files) read(path string) ([]byte, error) {
	content, ok := f[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func loadText(text string, environ ...string) (*Config, error) {
	return loadFiles(files{"c.yaml": text}, environ...)
}

func loadFiles(f files, environ ...string) (*Config, error) {
	return Load(Source{Environ: environ, File: "c.yaml", ReadFile: f.read})
}

func mustLoad(t *testing.T, text string, environ ...string) *Config {
	t.Helper()
	c, err := loadText(text, environ...)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{}, APIKey{}, OperatorKey{}), cmpopts.EquateEmpty())
}

func TestLoadWithNothingIsTheDefault(t *testing.T) {
	t.Parallel()
	got, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.NATS.Replicas = 1
	want.Telemetry.Traces = "off"
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
	if _, ok := got.Route(KindVideo, "any"); ok {
		t.Error("a route exists without an upstream")
	}
}

func TestEmptyAndNullFilesKeepTheDefaults(t *testing.T) {
	t.Parallel()
	want := mustLoad(t, "")
	for _, text := range []string{"# nothing\n", "---\n", "null\n", "{}", "http:\nnats:\n  streams:\nupstreams:\nroutes:\n", "http: {addr: ~}"} {
		if d := diff(want, mustLoad(t, text)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestOneUpstreamServesEverything(t *testing.T) {
	t.Parallel()
	fromEnv := mustLoad(t, "", "GENBUS_UPSTREAM_URL=https://api.example.com/", "GENBUS_UPSTREAM_KEY=sk-1")
	fromFile := mustLoad(t, "upstreams: {default: {base_url: https://api.example.com, key_env: GENBUS_UPSTREAM_KEY}}", "GENBUS_UPSTREAM_KEY=sk-1")
	if d := diff(fromFile, fromEnv); d != "" {
		t.Error(d)
	}
	want := []Route{NewRoute("video", KindVideo, "default", "*"), NewRoute("chat", KindChat, "default", "*")}
	if d := diff(want, fromEnv.Routes); d != "" {
		t.Error(d)
	}
	u := fromEnv.Upstreams["default"]
	if u.BaseURL != "https://api.example.com" || u.Key.Reveal() != "sk-1" {
		t.Errorf("upstream %v, key %q", u, u.Key.Reveal())
	}
	for _, kind := range []string{KindVideo, KindChat} {
		if route, ok := fromEnv.Route(kind, "any-model"); !ok || route.Name != kind {
			t.Errorf("Route(%s) = %v, %v", kind, route.Name, ok)
		}
	}
}

func TestRouteDefaults(t *testing.T) {
	t.Parallel()
	video, chat := NewRoute("v", KindVideo, "u", "*"), NewRoute("c", KindChat, "u", "*")
	if video.MaxInFlight != 100 || chat.MaxInFlight != 64 {
		t.Errorf("max_in_flight %d and %d", video.MaxInFlight, chat.MaxInFlight)
	}
	if video.Protocol != "primary" || chat.Protocol != "" {
		t.Errorf("protocol %q and %q", video.Protocol, chat.Protocol)
	}
	if chat.RetryTimeouts || chat.Timeouts.FirstByte != 10*time.Minute || chat.Timeouts.Idle != 10*time.Minute || chat.Timeouts.Total != 30*time.Minute {
		t.Errorf("timeouts of chats: %+v", chat)
	}
	if !chat.QueuedUsage || video.AckWait != time.Minute || video.Timeouts.Queue != 48*time.Hour {
		t.Errorf("unexpected defaults: %+v", video)
	}
	got := mustLoad(t, "upstreams: {u: {base_url: http://h}}\nroutes: [{name: c, kind: chat, upstream: u, models: ['*'], queued_usage: false, timeouts: {idle: 5s}}]").Routes[0]
	want := chat
	want.QueuedUsage, want.Timeouts.Idle = false, 5*time.Second
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestUpstreamKeyFromFile(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"sk-file", "sk-file\n", "sk-file\r\n"} {
		c, err := loadFiles(files{"c.yaml": "", "/run/key": content}, "GENBUS_UPSTREAM_URL=http://h", "GENBUS_UPSTREAM_KEY_FILE=/run/key")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Upstreams["default"].Key.Reveal(); got != "sk-file" {
			t.Errorf("%q is read as %q", content, got)
		}
	}
}

func TestEnvironmentKeyReplacesTheFiles(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "upstreams: {default: {base_url: http://old, key_file: /gone, max_idle_conns: 7}}", "GENBUS_UPSTREAM_URL=http://new", "GENBUS_UPSTREAM_KEY=sk-1")
	want := NewUpstream("http://new")
	want.KeyEnv, want.MaxIdleConns, want.Key = "GENBUS_UPSTREAM_KEY", 7, NewSecret("sk-1")
	if d := diff(want, c.Upstreams["default"]); d != "" {
		t.Error(d)
	}
}

func TestClusterFromEnvironment(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "", "GENBUS_NATS_URL=nats://svc:p%40ss@n1:4222, nats://n2:4222")
	if c.NATS.Embedded() || c.NATS.Replicas != 3 {
		t.Errorf("embedded %v, replicas %d", c.NATS.Embedded(), c.NATS.Replicas)
	}
	if d := cmp.Diff([]string{"nats://n1:4222", "nats://n2:4222"}, c.NATS.Servers()); d != "" {
		t.Error(d)
	}
	if c.NATS.User != "svc" || c.NATS.Password.Reveal() != "p@ss" {
		t.Errorf("user %q, password %q", c.NATS.User, c.NATS.Password.Reveal())
	}
}

func TestNATSPassword(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "nats: {user: svc, password_env: PW}", "PW=two words")
	if c.NATS.Password.Reveal() != "two words" {
		t.Errorf("password %q", c.NATS.Password.Reveal())
	}
}

func TestTracesFollowTheExporter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text, env string
		want      bool
	}{
		{"", "X=1", false},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", true},
		{"", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317", true},
		{"telemetry: {traces: off}", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", false},
		{"telemetry: {traces: on}", "X=1", true},
	} {
		if got := mustLoad(t, tc.text, tc.env).Telemetry.Enabled(); got != tc.want {
			t.Errorf("%q with %s: %v", tc.text, tc.env, got)
		}
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `
upstreams: {u: {base_url: http://h}}
routes:
  - {name: a, kind: video, upstream: u, models: [a], timeouts: &slow {deadline: 36h}}
  - {name: b, kind: video, upstream: u, models: [b], timeouts: *slow}
nats: {streams: {tasks: {max_age: 200h}}}`)
	if c.Routes[1].Timeouts.Deadline != 36*time.Hour || c.Routes[1].Timeouts.Queue != 48*time.Hour {
		t.Errorf("timeouts %+v", c.Routes[1].Timeouts)
	}
}

func TestAliasesCannotExpandWithoutBound(t *testing.T) {
	t.Parallel()
	models := strings.Repeat("a,", 2000)
	text := "routes:\n - &r {name: a, models: [" + models + "]}\n" + strings.Repeat(" - *r\n", 2000)
	_, err := loadText(text)
	if err == nil || !strings.Contains(err.Error(), "more than 100000 values") {
		t.Errorf("err = %.300v", err)
	}
}

func TestPrepareAfterAChangeInCode(t *testing.T) {
	t.Parallel()
	c := Default()
	c.HTTP.Addr = "127.0.0.1:0"
	c.Upstreams = Upstreams{"u": NewUpstream("http://127.0.0.1:1")}
	c.APIKeys = []APIKey{{Tenant: "acme", Key: NewSecret("k")}}
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if len(c.Routes) != 2 {
		t.Errorf("%d routes", len(c.Routes))
	}
	if tenant, ok := c.Tenant("k"); tenant != "acme" || !ok {
		t.Errorf("Tenant = %q, %v", tenant, ok)
	}
}

func TestReadFileOfTheSystem(t *testing.T) {
	t.Parallel()
	if _, err := readFile(t.TempDir() + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
	content, err := readFile("/dev/zero")
	if err != nil || len(content) != maxFileBytes+1 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
}

func TestEveryFieldCanBeSetAndFormatted(t *testing.T) {
	t.Parallel()
	var visit func(v reflect.Value, path string)
	visit = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			key, f := v.Type().Field(i).Tag.Get("yaml"), v.Field(i)
			if key == "" || key == "-" {
				continue
			}
			switch f.Kind() {
			case reflect.Struct:
				visit(f, path+"."+key)
			case reflect.Map, reflect.Slice:
				if f.Type().Elem().Kind() == reflect.Struct {
					visit(newElement(f.Type().Elem()), path+"."+key)
				}
			default:
				text := formatScalar(f)
				if want := setScalar(f, text); want != "" || formatScalar(f) != text {
					t.Errorf("%s: %q reads back as %q, %s", path+"."+key, text, formatScalar(f), want)
				}
			}
		}
	}
	visit(reflect.ValueOf(Default()).Elem(), "")
}

// TestListensAt checks that the address is found despite other mistakes in the configuration.
func TestListensAt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		file, variable, want string
		fails                bool
	}{
		"mistakes elsewhere": {"http: {addr: 'h:1'}\napi_kyes: []\nupstreams: {a: {key_file: /no/such/file}}", "", "h:1", false},
		"a variable":         {"http: {addr: 'h:1'}", "GENBUS_HTTP_ADDR=h:2", "h:2", false},
		"no YAML":            {"http: [", "", Default().HTTP.Addr, true},
		"no YAML, variable":  {"http: {addr: 'h:1'}\nhttp: [", "GENBUS_HTTP_ADDR=h:2", "h:2", true},
	} {
		got, err := ListensAt(Source{File: "c.yaml", Environ: []string{row.variable}, ReadFile: func(string) ([]byte, error) { return []byte(row.file), nil }})
		if got.Addr != row.want || (err != nil) != row.fails {
			t.Errorf("%s: %q, %v", name, got.Addr, err)
		}
	}
}

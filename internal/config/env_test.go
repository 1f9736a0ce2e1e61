package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestEveryVariable checks that each variable overrides its field, and that every variable has a
// test case.
func TestEveryVariable(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ value, bad string }{
		"GENBUS_NATS_URL":         {"nats://n1:4222", "http://n1"},
		"GENBUS_NATS_LISTEN":      {"127.0.0.1:4333", "nowhere"},
		"GENBUS_DATA_DIR":         {"/var/lib/genbus", ""},
		"GENBUS_NATS_PREFIX":      {"acme.genbus", "a b"},
		"GENBUS_NATS_REPLICAS":    {"1", "two"},
		"GENBUS_NATS_CREDS_FILE":  {"/run/nats.creds", "/run/none"},
		"GENBUS_NATS_SYNC_ALWAYS": {"false", "no"},
		"GENBUS_HTTP_ADDR":        {"127.0.0.1:1", "8080"},
		"GENBUS_HTTP_PUBLIC_URL":  {"https://genbus.example.com", "genbus.example.com"},
		"GENBUS_GRPC_ADDR":        {"localhost:2", "host:port"},
		"GENBUS_LOG_LEVEL":        {"debug", "loud"},
		"GENBUS_LOG_FORMAT":       {"json", "xml"},
		"GENBUS_INDEX":            {"off", "maybe"},
		"GENBUS_SHUTDOWN_DELAY":   {"5s", "5"},
		"GENBUS_SHUTDOWN_GRACE":   {"45s", "45"},
		"GENBUS_SANDBOX_ADDR":     {"127.0.0.1:3", ":x"},
	}
	eachVariable(reflect.ValueOf(Default()).Elem(), "", func(name, key string, _ reflect.Value) {
		tc, ok := cases[name]
		if !ok {
			t.Errorf("%s has no case", name)
			return
		}
		environ := []string{name + "=" + tc.value}
		if name == "GENBUS_NATS_CREDS_FILE" {
			environ = append(environ, "GENBUS_NATS_URL=nats://n1:4222")
		}
		// The file sets these fields too, to show that the variable wins.
		c, err := loadFiles(files{"c.yaml": "log: {level: warn}\nshutdown: {grace: 1s}", "/run/nats.creds": "x"}, environ...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		eachVariable(reflect.ValueOf(c).Elem(), "", func(other, _ string, v reflect.Value) {
			if other == name && formatScalar(v) != tc.value {
				t.Errorf("%s=%s gives %s", name, tc.value, formatScalar(v))
			}
		})
		if tc.bad == "" {
			return
		}
		environ[0] = name + "=" + tc.bad
		_, err = loadText("", environ...)
		if err == nil || !strings.Contains(err.Error(), name+": "+key+" is \""+tc.bad+`"; want `) {
			t.Errorf("%s=%s: %v", name, tc.bad, err)
		}
	})
}

func TestConfigVariableNamesTheFile(t *testing.T) {
	t.Parallel()
	f := files{"/etc/a.yaml": "log: {level: warn}", "/etc/b.yaml": "log: {level: error}"}
	environ := []string{"GENBUS_CONFIG=/etc/a.yaml"}
	for file, want := range map[string]string{"": "warn", "/etc/b.yaml": "error"} {
		c, err := Load(Source{Environ: environ, File: file, ReadFile: f.read})
		if err != nil {
			t.Fatal(err)
		}
		if c.Log.Level != want {
			t.Errorf("file %q: level %s, want %s", file, c.Log.Level, want)
		}
	}
}

func TestEmptyVariablesAreNotSet(t *testing.T) {
	t.Parallel()
	want := mustLoad(t, "")
	got := mustLoad(t, "", "GENBUS_HTTP_ADDR=", "GENBUS_UPSTREAM_URL=", "GENBUS_API_KEY=", "GENBUS_WHATEVER=")
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestVariablesOfCommandsAreKnown proves that genbus starts in the shell of its user.
func TestVariablesOfCommandsAreKnown(t *testing.T) {
	t.Parallel()
	if d := diff(mustLoad(t, ""), mustLoad(t, "", "GENBUS_SERVER=genbus.example", "GENBUS_CA=ca.pem")); d != "" {
		t.Error(d)
	}
}

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	_, err := loadText("", "GENBUS_HTTP_ADR=secret-value", "GENBUS_BANANA_SPLIT=secret-value", "GENBUS_TEST=full", "OTHER_VAR=1")
	wantLines(t, err,
		"GENBUS_BANANA_SPLIT is not a known variable; want one of GENBUS_API_KEY, GENBUS_API_KEY_FILE, GENBUS_CA, GENBUS_CONFIG, ",
		"GENBUS_HTTP_ADR is not a known variable; did you mean GENBUS_HTTP_ADDR?")
	if strings.Contains(err.Error(), "secret-value") {
		t.Error("the value of an unknown variable is shown")
	}
}

func TestVariablesOfKubernetesServicesAreNotOurs(t *testing.T) {
	t.Parallel()
	mustLoad(t, "", "GENBUS_SERVICE_HOST=10.0.0.1", "GENBUS_SERVICE_PORT=8080", "GENBUS_SERVICE_PORT_HTTP=8080",
		"GENBUS_PORT=tcp://10.0.0.1:8080", "GENBUS_PORT_8080_TCP=tcp://10.0.0.1:8080", "GENBUS_PORT_8080_TCP_PROTO=tcp",
		"GENBUS_PORT_8080_TCP_PORT=8080", "GENBUS_PORT_8080_TCP_ADDR=10.0.0.1", "GENBUS_GRPC_PORT=tcp://10.0.0.1:9090")
	_, err := loadText("", "GENBUS_HTTP_PORT=8080")
	wantLines(t, err, "GENBUS_HTTP_PORT is not a known variable; did you mean GENBUS_HTTP_ADDR?")
}

func TestAVariableNamedByTheFileIsKnown(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "upstreams: {u: {base_url: http://h, key_env: GENBUS_ACME_KEY}}", "GENBUS_ACME_KEY=sk-1")
	if c.Upstreams["u"].Key.Reveal() != "sk-1" {
		t.Error("key not loaded")
	}
}

func TestAPIKeyFromEnvironment(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "api_keys: [{tenant: default, key_env: GENBUS_API_KEY}]"} {
		c := mustLoad(t, text, "GENBUS_API_KEY=0123456789abcdef", "GENBUS_HTTP_ADDR=0.0.0.0:8080")
		if tenant, ok := c.Tenant("0123456789abcdef"); len(c.APIKeys) != 1 || tenant != DefaultTenant || !ok {
			t.Errorf("%q: %d keys, tenant %q, %v", text, len(c.APIKeys), tenant, ok)
		}
	}
}

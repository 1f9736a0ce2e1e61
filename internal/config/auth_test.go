package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTenant(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "api_keys: [{tenant: acme, key_env: A}, {tenant: globex, key_env: B}, {tenant: acme, key_env: C}]", "A=key-a", "B=key-b", "C=key-c")
	for key, want := range map[string]string{"key-a": "acme", "key-b": "globex", "key-c": "acme", "key-": "", "": "", "KEY-A": "", "key-a\n": ""} {
		tenant, ok := c.Tenant(key)
		if tenant != want || ok != (want != "") {
			t.Errorf("Tenant(%q) = %q, %v; want %q", key, tenant, ok, want)
		}
	}
}

func TestWithoutKeysEverybodyIsTheDefaultTenant(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "")
	for _, key := range []string{"", "anything"} {
		if tenant, ok := c.Tenant(key); tenant != DefaultTenant || !ok {
			t.Errorf("Tenant(%q) = %q, %v", key, tenant, ok)
		}
	}
}

// TestAnEmptyKeyMatchesNobody checks this even for a Config built in code whose problems were
// ignored.
func TestAnEmptyKeyMatchesNobody(t *testing.T) {
	t.Parallel()
	c := Default()
	c.APIKeys = []APIKey{{Tenant: "acme"}}
	c.OperatorKeys = []OperatorKey{{Name: "ops"}}
	if err := c.Prepare(); err == nil {
		t.Error("an entry without a key is accepted")
	}
	if tenant, ok := c.Tenant(""); ok {
		t.Errorf("the empty key is tenant %q", tenant)
	}
	if o, ok := c.Operator(""); ok {
		t.Errorf("the empty key is operator %q", o.Name)
	}
}

func TestAKeyByItsHash(t *testing.T) {
	t.Parallel()
	for _, sum := range []string{sha("key-a"), strings.ToUpper(sha("key-a"))} {
		c := mustLoad(t, "api_keys: [{tenant: acme, key_sha256: "+sum+"}]\noperator_keys: [{name: ops, key_sha256: "+sha("key-b")+"}]")
		if tenant, ok := c.Tenant("key-a"); tenant != "acme" || !ok {
			t.Errorf("Tenant = %q, %v", tenant, ok)
		}
		if o, ok := c.Operator("key-b"); o.Name != "ops" || !ok {
			t.Errorf("Operator = %q, %v", o.Name, ok)
		}
		if _, ok := c.Tenant(sum); ok {
			t.Error("the hash of a key is a key")
		}
	}
}

func TestNewKeys(t *testing.T) {
	t.Parallel()
	key, hash := NewKey()
	other, _ := NewKey()
	if len(key) != len("gb_")+43 || !strings.HasPrefix(key, "gb_") || key == other || hash != sha(key) {
		t.Errorf("key %q, hash %q, another key %q", key, hash, other)
	}
	c := mustLoad(t, "api_keys: [{tenant: acme, key_sha256: "+hash+"}]")
	if tenant, _ := c.Tenant(key); tenant != "acme" {
		t.Errorf("tenant %q", tenant)
	}
	// A generated key also works in a variable.
	if tenant, _ := mustLoad(t, "", "GENBUS_API_KEY="+key).Tenant(key); tenant != DefaultTenant {
		t.Errorf("tenant %q", tenant)
	}
}

func TestOperator(t *testing.T) {
	t.Parallel()
	const key, other = "operator-key-0123", "operator-key-4567"
	c := mustLoad(t, "operator_keys: [{name: ops, key_env: OPS}]\napi_keys: [{tenant: acme, key_env: A}]", "A=key-a", "OPS="+key, "GENBUS_OPERATOR_KEY="+other)
	for _, tc := range []struct{ key, want string }{{key, "ops"}, {other, DefaultOperator}, {"key-a", ""}, {"", ""}} {
		if o, ok := c.Operator(tc.key); o.Name != tc.want || ok != (tc.want != "") {
			t.Errorf("Operator(%q) = %q, %v; want %q", tc.key, o.Name, ok, tc.want)
		}
	}
	if _, ok := c.Tenant(other); ok {
		t.Error("an operator's key is a tenant's")
	}
	if o, ok := mustLoad(t, "").Operator(key); ok {
		t.Errorf("without keys everybody is operator %q", o.Name)
	}
}

func TestOperatorKeyFromEnvironment(t *testing.T) {
	t.Parallel()
	const key = "operator-key-0123"
	for _, text := range []string{"", "operator_keys: [{name: operator, key_env: GENBUS_OPERATOR_KEY}]"} {
		c := mustLoad(t, text, "GENBUS_OPERATOR_KEY="+key)
		if o, ok := c.Operator(key); len(c.OperatorKeys) != 1 || o.Name != DefaultOperator || !ok {
			t.Errorf("%q: %d keys, operator %q, %v", text, len(c.OperatorKeys), o.Name, ok)
		}
	}
	c, err := loadFiles(files{"c.yaml": "", "/run/key": key + "\n"}, "GENBUS_OPERATOR_KEY_FILE=/run/key")
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := c.Operator(key); o.Name != DefaultOperator || !ok {
		t.Errorf("of a file: operator %q, %v", o.Name, ok)
	}
}

// TestAKeyOfTheFileAndOfTheEnvironment checks that a key in both yields one entry, with the name
// from the file.
func TestAKeyOfTheFileAndOfTheEnvironment(t *testing.T) {
	t.Parallel()
	const ops, key = "operator-key-0123", "tenants-key-01234"
	for _, text := range []string{
		"operator_keys: [{name: ops, key_file: /ops}]\napi_keys: [{tenant: default, key_file: /key}]",
		"operator_keys: [{name: ops, key_sha256: " + sha(ops) + "}]\napi_keys: [{tenant: default, key_sha256: " + sha(key) + "}]",
	} {
		c, err := loadFiles(files{"c.yaml": text, "/ops": ops + "\n", "/key": key}, "GENBUS_OPERATOR_KEY="+ops, "GENBUS_API_KEY="+key)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if o, ok := c.Operator(ops); o.Name != "ops" || !ok || len(c.OperatorKeys) != 1 || len(c.APIKeys) != 1 {
			t.Errorf("operator %q, %v, of %d keys", o.Name, ok, len(c.OperatorKeys))
		}
	}
}

// TestEndedKeys checks that expired keys are reported only for tenants that have no valid key left.
func TestEndedKeys(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `
api_keys:
- {tenant: acme, key_env: OLD, not_after: 2026-12-01T00:00:00Z}
- {tenant: acme, key_env: NEW}
- {tenant: globex, key_env: LAST, not_after: 2026-12-01T00:00:00Z}
`, "OLD=a", "NEW=b", "LAST=c")
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time][]EndedKey{
		end.Add(-time.Second): nil,
		end:                   {{Tenant: "globex", Name: "api_keys[2] (variable LAST)", NotAfter: end}},
	} {
		c.now = func() time.Time { return at }
		if got := c.EndedKeys(); !slices.Equal(got, want) {
			t.Errorf("at %s: %v, want %v", at, got, want)
		}
	}
}

// TestSessionsEndWithTheirKey checks that sessions end when their key is removed, and only then.
func TestSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	before := mustLoad(t, "operator_keys: [{name: ops, key_sha256: "+sha("key-a")+"}, {name: viewer, key_sha256: "+sha("key-b")+"}]")
	after := mustLoad(t, "operator_keys: [{name: ops, key_sha256: "+sha("key-a")+"}, {name: other, key_sha256: "+sha("key-c")+"}]")
	id := SessionID("key-a")
	one, known := before.SessionSeal(id)
	two, still := after.SessionSeal(id)
	if !known || !still || one != two {
		t.Errorf("the sessions of a key that stays end: %v, %v", known, still)
	}
	if _, known := after.SessionSeal(SessionID("key-b")); known {
		t.Error("the sessions of a key that was removed go on")
	}
	if other, _ := before.SessionSeal(SessionID("key-b")); other == one {
		t.Error("two keys have one seal")
	}
}

// TestRotation checks that a tenant's old and new key are both valid until the old one expires.
func TestRotation(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `
api_keys:
- {tenant: acme, key_env: OLD, not_after: 2026-12-01T00:00:00+01:00}
- {tenant: acme, key_env: NEW}
- {tenant: acme, access_key: ak, secret_key_env: OLD, not_after: 2026-12-01T00:00:00Z}
operator_keys:
- {name: ops, key_sha256: `+sha("operator")+`, not_after: 2026-12-01T00:00:00Z}`, "OLD=key-old-012345678", "NEW=key-new")
	end := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		now         time.Time
		old, others bool
	}{
		{end.Add(-time.Nanosecond), true, true},
		{end, false, true},
		{end.Add(time.Hour), false, false},
	} {
		c.now = func() time.Time { return tc.now }
		_, old := c.Tenant("key-old-012345678")
		_, fresh := c.Tenant("key-new")
		_, operator := c.Operator("operator")
		_, _, pair := c.Pair("ak")
		if old != tc.old || !fresh || operator != tc.others || pair != tc.others {
			t.Errorf("at %v: old %v, new %v, operator %v, pair %v", tc.now, old, fresh, operator, pair)
		}
	}
}

// TestPlainKeysAreErased checks that a loaded Config holds only hashes and can be prepared again.
func TestPlainKeysAreErased(t *testing.T) {
	t.Parallel()
	const operator = "operator-key-0123"
	c := mustLoad(t, "api_keys: [{tenant: acme, key_env: A}]", "A=key-a", "GENBUS_OPERATOR_KEY="+operator)
	for range 2 {
		if !c.APIKeys[0].Key.Empty() || !c.OperatorKeys[0].Key.Empty() {
			t.Fatal("a plain key is kept")
		}
		if tenant, _ := c.Tenant("key-a"); tenant != "acme" {
			t.Errorf("tenant %q", tenant)
		}
		if o, _ := c.Operator(operator); o.Name != DefaultOperator {
			t.Errorf("operator %q", o.Name)
		}
		if err := c.AddSandbox("http://127.0.0.1:9"); err != nil {
			t.Fatal(err)
		}
		delete(c.Upstreams, SandboxUpstream)
		c.Routes = nil
	}
	c.APIKeys[0].Key = NewSecret("key-b")
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Tenant("key-a"); ok {
		t.Error("a replaced key is valid")
	}
}

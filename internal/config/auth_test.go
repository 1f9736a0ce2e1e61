package config

import "testing"

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

// TestAnEmptyKeyMatchesNobody holds even for a Config that was built in code and whose problems were ignored.
func TestAnEmptyKeyMatchesNobody(t *testing.T) {
	t.Parallel()
	c := Default()
	c.APIKeys = []APIKey{{Tenant: "acme"}}
	if err := c.Prepare(); err == nil {
		t.Error("an entry without a key is accepted")
	}
	if tenant, ok := c.Tenant(""); ok {
		t.Errorf("the empty key is tenant %q", tenant)
	}
}

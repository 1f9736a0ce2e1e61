package cli

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
)

// TestNewKeyIsWhatTheConfigurationTakes proves that the printed sample is a valid configuration of
// the printed key.
func TestNewKeyIsWhatTheConfigurationTakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command newKeyCommand
		whose   func(c *config.Config, key string) string
	}{
		"acme": {newKeyCommand{Tenant: new("acme")}, func(c *config.Config, key string) string { name, _ := c.Tenant(key); return name }},
		"ops":  {newKeyCommand{Operator: new("ops")}, func(c *config.Config, key string) string { o, _ := c.Operator(key); return o.Name }},
	} {
		key, c, err := taken(t, tc.command)
		if err != nil {
			t.Fatal(err)
		}
		if got := tc.whose(c, key); got != name {
			t.Errorf("the key %q is of %q, want %q", key, got, name)
		}
	}
}

// TestNewKeyOfABadName proves that names that the configuration refuses get no key, but the rule.
func TestNewKeyOfABadName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", " ", "bad name", "bad.name", "bad\nname", "größe", "*", strings.Repeat("a", 65)} {
		for whose, c := range map[string]newKeyCommand{"tenant": {Tenant: &name}, "operator": {Operator: &name}} {
			var out strings.Builder
			err := c.Run(&out)
			if !command.IsUsage(err) || !strings.Contains(err.Error(), "use 1 to 64 letters, digits, _ or -") || out.Len() > 0 {
				t.Errorf("%s %q: %v, %q", whose, name, err, out.String())
			}
		}
	}
}

// TestNewKeyOfNobody proves that a sample without a name is rejected.
func TestNewKeyOfNobody(t *testing.T) {
	t.Parallel()
	if _, _, err := taken(t, newKeyCommand{}); err == nil || !strings.Contains(err.Error(), `api_keys[0].tenant is "<tenant>"`) {
		t.Errorf("the sample is taken: %v", err)
	}
}

// taken creates a key and loads the sample printed with it.
func taken(t *testing.T, command newKeyCommand) (key string, c *config.Config, err error) {
	t.Helper()
	var out strings.Builder
	if err := command.Run(&out); err != nil {
		t.Fatal(err)
	}
	key, rest, _ := strings.Cut(out.String(), "\n")
	_, file, _ := strings.Cut(rest, ":\n\n")
	c, err = config.Load(config.Source{File: "c.yaml", ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	return key, c, err
}

package main

import (
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
)

// TestNewKeyIsWhatTheConfigurationTakes: the sample that is printed is a file, and
// the key above it is the one.
func TestNewKeyIsWhatTheConfigurationTakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		command newKeyCommand
		whose   func(c *config.Config, key string) string
	}{
		"acme": {newKeyCommand{Tenant: "acme"}, func(c *config.Config, key string) string { name, _ := c.Tenant(key); return name }},
		"NAME": {newKeyCommand{}, func(c *config.Config, key string) string { name, _ := c.Tenant(key); return name }},
		"ops":  {newKeyCommand{Operator: "ops"}, func(c *config.Config, key string) string { name, _ := c.Operator(key); return name }},
	} {
		var out strings.Builder
		if err := tc.command.Run(&out); err != nil {
			t.Fatal(err)
		}
		key, rest, _ := strings.Cut(out.String(), "\n")
		_, file, _ := strings.Cut(rest, ":\n\n")
		c, err := config.Load(config.Source{File: "c.yaml", ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if got := tc.whose(c, key); got != name {
			t.Errorf("the key %q is of %q, want %q", key, got, name)
		}
	}
}

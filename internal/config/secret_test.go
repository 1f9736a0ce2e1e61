package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	secret := NewSecret(text)
	hidden := struct{ inner Secret }{secret} // fmt cannot call the methods of an unexported field
	public := struct{ Inner Secret }{secret}
	c := mustLoad(t, "nats: {user: u, password_env: K}\napi_keys: [{tenant: a, key_env: K}]\nupstreams: {u: {base_url: http://h, key_env: K}}", "K="+text)

	for name, value := range map[string]any{"itself": secret, "pointer": &secret, "unexported": hidden, "exported": public, "config": c, "config value": *c, "slice": []Secret{secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, text) || strings.Contains(strings.ToLower(got), fmt.Sprintf("%x", text)) {
				t.Errorf("%s of %s shows it: %s", verb, name, got)
			}
		}
		for encoder, marshal := range map[string]func(any) ([]byte, error){
			"json": json.Marshal, "yaml": yaml.Marshal, "json v2": func(v any) ([]byte, error) { return jsonv2.Marshal(v) },
		} {
			// Some encoders reject some values (json v2: a time.Duration). Partial output counts
			// too.
			if got, err := marshal(value); bytes.Contains(got, []byte(text)) || err != nil && strings.Contains(err.Error(), text) {
				t.Errorf("%s of %s: %s, %v", encoder, name, got, err)
			}
		}
		for _, handler := range []func(*bytes.Buffer) slog.Handler{
			func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var log bytes.Buffer
			slog.New(handler(&log)).Info("x", "value", value)
			if strings.Contains(log.String(), text) {
				t.Errorf("the log of %s shows it: %s", name, log.String())
			}
		}
	}
	if secret.Reveal() != text {
		t.Errorf("Reveal = %q", secret.Reveal())
	}
}

func TestSecretSaysThatItIsRedacted(t *testing.T) {
	t.Parallel()
	secret := NewSecret("hunter2")
	if got := fmt.Sprintf("%v %s %#v", secret, secret, secret); got != "[redacted] [redacted] [redacted]" {
		t.Error(got)
	}
	if got, err := json.Marshal(secret); string(got) != `"[redacted]"` || err != nil {
		t.Error(string(got), err)
	}
	if got, err := yaml.Marshal(map[string]Secret{"a": secret}); string(got) != "a: '[redacted]'\n" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if got := secret.LogValue().String(); got != "[redacted]" {
		t.Error(got)
	}
}

func TestEmptySecret(t *testing.T) {
	t.Parallel()
	var zero Secret
	if !zero.Empty() || zero.Reveal() != "" || !NewSecret("").Empty() || !zero.Equal(NewSecret("")) || zero.Equal(NewSecret("a")) {
		t.Error("the empty secret is not empty")
	}
}

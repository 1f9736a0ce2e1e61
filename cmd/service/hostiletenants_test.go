package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestNoTenantReadsAnothersWords proves that an upstream error message, which may quote a request,
// is shown only to the tenant of that request.
func TestNoTenantReadsAnothersWords(t *testing.T) {
	t.Parallel()
	const keyA, keyB = "tenant-a-key-0123456789", "tenant-b-key-0123456789"
	w := newClientWorld(t, sandbox.Options{}, func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "a", KeyEnv: "A", Key: config.NewSecret(keyA)}, {Tenant: "b", KeyEnv: "B", Key: config.NewSecret(keyB)}}
	})
	w.up.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost {
			return nil
		}
		return &sandbox.Behaviour{Status: 429, RetryAfter: "120", Message: "too many requests like: " + string(body)}
	})
	const chat = `{"model":"sandbox-chat","messages":[{"role":"user","content":%q}]}`
	for tenant, key := range map[string]string{"a": keyA, "b": keyB} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(chat, "the secret of "+tenant)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		other := map[string]string{"a": "b", "b": "a"}[tenant]
		if strings.Contains(string(body), "the secret of "+other) {
			t.Errorf("tenant %s is told: %s", tenant, body)
		}
	}
}

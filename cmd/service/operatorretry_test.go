package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestOperatorRetryCommand proves that the request of a failed job can be printed, edited and
// submitted.
func TestOperatorRetryCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps, func(c *config.Config) {
		c.OperatorsReadBodies = true
		for i := range c.Routes {
			c.Routes[i].KeepRequests = true
		}
	})
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	old := w.acmeVideo(t, "sandbox-video:statuses=in_progress|failed", "secret")
	w.awaitStatus(t, old, "failed")
	body := c.ok("jobs", "body", old)
	if !strings.HasPrefix(body, `{"`) || !strings.HasSuffix(body, "}\n") || !strings.Contains(body, "secret") {
		t.Fatalf("printed %q", body)
	}
	if out, code := c.run("jobs", "body", old[:12]); code != command.ExitUsage || !strings.Contains(out, "fits job "+old+" of acme") {
		t.Errorf("a part of the ID: %d %s", code, out)
	}
	if out, code := c.run("jobs", "body", old, "--reply"); code != command.ExitNotFound || !strings.Contains(out, "the reply of "+old+" is not stored") {
		t.Errorf("%d %q", code, out)
	}
	path := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run("jobs", "retry", old, "--edit", path); code != command.ExitUsage || !strings.Contains(out, "is empty") {
		t.Errorf("an empty file: %d %q", code, out)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(body, ":statuses=in_progress|failed", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	first := c.ok("jobs", "retry", old, "--edit", path)
	if second := c.ok("jobs", "retry", old, "--tenant", "acme", "--edit", path); !strings.HasPrefix(first, "submitted "+old+" again as job video_") || newJob(second) != newJob(first) {
		t.Errorf("printed %q and %q", first, second)
	}
	w.awaitStatus(t, newJob(first), "completed")
	if audit := c.ok("audit", "--action", "RetryJob"); !strings.Contains(audit, " with an edited request as video_") {
		t.Errorf("the audit log says %q", audit)
	}
	if other := c.ok("jobs", "retry", old, "--retry-key", "2"); newJob(other) == newJob(first) {
		t.Errorf("another key made %q too", other)
	}
	if out, code := c.run("jobs", "retry", old); code != command.ExitUsage || !strings.Contains(out, "idempotency_key_reused: ") {
		t.Errorf("%d %q", code, out)
	}
}

func newJob(printed string) string {
	_, after, _ := strings.Cut(printed, "as job ")
	id, _, _ := strings.Cut(after, " ")
	return id
}

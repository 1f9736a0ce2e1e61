package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestOperatorBulkCommand proves that a bulk action counts the jobs of a paused route, cancels them
// and reports the result.
func TestOperatorBulkCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	c.ok("pause", "video", config.SandboxVideoRoute)
	var ids []string
	for range 3 {
		ids = append(ids, w.acmeVideo(t, "sandbox-video", "a cat"))
	}
	await(t, "the count", func() bool {
		return strings.HasPrefix(c.ok("bulk", "cancel", "--route", config.SandboxVideoRoute, "--status", "queued"), "3 jobs match as of ")
	})
	if status := w.statusOf(t, ids[0]); status != "queued" {
		t.Errorf("a count has made it %s", status)
	}
	filter := []string{"bulk", "cancel", "--route", config.SandboxVideoRoute, "--yes"}
	out := c.ok(filter...)
	if !strings.HasPrefix(out, "as of ") || !strings.Contains(out, "0 of 3 done") || !strings.HasSuffix(out, "finished: 3 changed, 0 failed, 0 had ended or no longer matched\n") {
		t.Errorf("bulk cancel printed\n%s", out)
	}
	for _, id := range ids {
		if status := w.statusOf(t, id); status != "cancelled" {
			t.Errorf("%s is %s", id, status)
		}
	}
	token := regexp.MustCompile(`token (\S+)`).FindStringSubmatch(out)
	if token == nil {
		t.Fatalf("no token in\n%s", out)
	}
	if again := c.ok(append(filter, "--token", token[1])...); !strings.Contains(again, "finished: 0 changed") {
		t.Errorf("continued it printed\n%s", again)
	}
	if out, code := c.run("bulk", "cancel", "--yes", "--kind", "chat", "--token", token[1]); code != command.ExitUsage || !strings.Contains(out, "token") {
		t.Errorf("another filter with the token: %d\n%s", code, out)
	}
	if out, code := c.run("bulk", "cancel", "--yes"); code != command.ExitUsage || !strings.Contains(out, "everything") {
		t.Errorf("without a filter: %d\n%s", code, out)
	}
	c.ok("bulk", "redrive", "--code", "poisoned", "--yes")
	c.ok("bulk", "drop", "--all", "--yes")

	list := filepath.Join(t.TempDir(), "tasks")
	if err := os.WriteFile(list, []byte("17 task_1\n\n18\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run("bulk", "attach", list, "--yes"); code != command.ExitNotPossible || !strings.Contains(out, "2 on the list were not found") || !strings.Contains(out, "dead letter 17 (") {
		t.Errorf("bulk attach of dead letters that there never were: %d\n%s", code, out)
	}
	if err := os.WriteFile(list, []byte("17 task_1 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run("bulk", "attach", list); code != command.ExitUsage || !strings.Contains(out, "line 1") {
		t.Errorf("a wrong list: %d\n%s", code, out)
	}

	if out := c.ok("audit", "--action", "CancelJobs"); strings.Count(out, " cancelled 3 of 3 jobs; filter ") != 1 || !strings.Contains(out, config.SandboxVideoRoute) {
		t.Errorf("audit printed\n%s", out)
	}
}

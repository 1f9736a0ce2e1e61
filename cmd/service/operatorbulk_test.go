package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestOperatorBulkCommand counts jobs of a paused route, cancels them, and says what it did.
func TestOperatorBulkCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := command{t: t, server: w.GRPCAddr().String(), key: opsKey}
	if out := c.ok("operations", "list"); out != "no operations\n" {
		t.Errorf("operations list printed\n%s", out)
	}
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
	out := c.ok("bulk", "cancel", "--route", config.SandboxVideoRoute, "--operation-id", "o1", "--yes")
	if !strings.HasPrefix(out, "operation o1: 3 jobs as of ") || !strings.Contains(out, "3 of 3 done: 3 changed, 0 failed") || !strings.Contains(out, "cancel route="+config.SandboxVideoRoute) {
		t.Errorf("bulk cancel printed\n%s", out)
	}
	for _, id := range ids {
		if status := w.statusOf(t, id); status != "cancelled" {
			t.Errorf("%s is %s", id, status)
		}
	}
	if again := c.ok("bulk", "cancel", "--route", config.SandboxVideoRoute, "--operation-id", "o1", "--yes"); !strings.Contains(again, "3 of 3 done") {
		t.Errorf("called once more it printed\n%s", again)
	}
	if out, code := c.run("bulk", "cancel", "--yes"); code != exitUsage || !strings.Contains(out, "everything") {
		t.Errorf("without a filter: %d\n%s", code, out)
	}
	c.ok("bulk", "redrive", "--code", "poisoned", "--operation-id", "o2", "--yes")
	c.ok("bulk", "drop", "--all", "--operation-id", "o3", "--yes", "--no-wait")

	list := filepath.Join(t.TempDir(), "tasks")
	if err := os.WriteFile(list, []byte("17 task_1\n\n18\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run("bulk", "attach", list, "--operation-id", "o4", "--yes"); code != exitUsage || !strings.Contains(out, "there was no such letter") {
		t.Errorf("bulk attach of letters that there never were: %d\n%s", code, out)
	}
	if err := os.WriteFile(list, []byte("17 task_1 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run("bulk", "attach", list); code != exitUsage || !strings.Contains(out, "line 1") {
		t.Errorf("a wrong list: %d\n%s", code, out)
	}

	all := c.ok("operations", "list")
	for _, id := range []string{"o1", "o2", "o3"} {
		if !strings.Contains(all, "  "+id+"  ") {
			t.Errorf("operations list printed\n%s", all)
		}
	}
	if out := c.ok("operations", "show", "o1"); !strings.Contains(out, "done") || !strings.Contains(out, "3 changed") {
		t.Errorf("operations show printed\n%s", out)
	}
	if out := c.ok("operations", "stop", "o1"); out != "operation o1 is done\n" {
		t.Errorf("operations stop printed\n%s", out)
	}
	if _, code := c.run("operations", "show", "o5"); code != exitNotFound {
		t.Errorf("an operation that is none: %d", code)
	}
	if out := c.ok("audit", "--action", "StartOperation"); strings.Count(out, "operation o1") != 2 {
		t.Errorf("audit printed\n%s", out)
	}
}

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseRefuses: no release is made of what nobody could build again. That one is
// made, and is the same twice, the script sees to itself.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the script is for a shell")
	}
	for _, tool := range []string{"bash", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s", tool)
		}
	}
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		// No configuration of this machine, such as one that signs what is committed.
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := run("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	refused := func(why string) {
		t.Helper()
		if out, err := run("bash", "deploy/release", "linux/amd64"); err == nil || !strings.Contains(out, why) {
			t.Errorf("want %q: %v: %s", why, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "dist")); err == nil {
			t.Error("something was made")
		}
	}
	put("deploy/release", content(t, "release"))
	put("go.mod", "module example.com/x\n\ngo 1.0.1\n")
	git("init", "--quiet")
	refused("This tree has changes")
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	refused("HEAD has no tag")
	git("tag", "v2.0.0")
	refused("v2.0.0 is no version of this module")
	git("tag", "-d", "v2.0.0")
	git("tag", "-a", "-m", "one", "v1.0.0")
	refused("releases are built by the version that go.mod names, go1.0.1")
}

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// releases is a repository for running deploy/release.
type releases struct {
	t       *testing.T
	dir     string
	environ []string // added to the environment of this process
}

// newReleases creates a repository with the script and a go.mod, without commits.
func newReleases(t *testing.T) *releases {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the script requires a Unix shell")
	}
	for _, tool := range []string{"bash", "git", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	// Ignore the machine's git configuration, which may sign commits for example.
	r := &releases{t: t, dir: t.TempDir(), environ: []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}}
	r.put("deploy/release", content(t, "release"))
	r.put("go.mod", "module example.com/x\n\ngo 1.0\n\ntoolchain go1.0.1\n")
	r.git("init", "--quiet")
	return r
}

func (r *releases) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *releases) run(name string, args ...string) (string, error) {
	c := exec.CommandContext(r.t.Context(), name, args...)
	c.Dir, c.Env = r.dir, append(os.Environ(), r.environ...)
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (r *releases) git(args ...string) {
	r.t.Helper()
	if out, err := r.run("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...); err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// tag commits everything and tags it with a version.
func (r *releases) tag(version string) {
	r.t.Helper()
	r.git("add", ".")
	r.git("commit", "--quiet", "--allow-empty", "-m", version)
	r.git("tag", "-a", "-m", version, version)
}

// ours writes a go.mod with the installed Go version.
func (r *releases) ours() {
	r.t.Helper()
	version, err := r.run("go", "env", "GOVERSION")
	if err != nil {
		r.t.Fatal(err, version)
	}
	r.put("go.mod", "module example.com/x\n\ngo 1.26.0\n\ntoolchain "+version+"\n")
}

func (r *releases) refused(why string) {
	r.t.Helper()
	if out, err := r.run("bash", "deploy/release"); err == nil || !strings.Contains(out, why) {
		r.t.Errorf("want %q: %v: %s", why, err, out)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "dist")); err == nil {
		r.t.Error("dist was created")
	}
}

// TestReleaseRefuses proves that deploy/release refuses a tree that cannot be rebuilt, and a chart
// for another version. tools/release has the tests of the release itself.
func TestReleaseRefuses(t *testing.T) {
	t.Parallel()
	r := newReleases(t)
	r.environ = append(r.environ, "GOTOOLCHAIN=local")
	r.refused("The working tree has changes")
	r.git("add", ".")
	r.git("commit", "--quiet", "-m", "first")
	r.refused("HEAD has no tag. See docs/deploy.md#make-a-release")
	r.git("tag", "v2.0.0")
	r.refused("The tag v2.0.0 is not a version of this module")
	r.git("tag", "-d", "v2.0.0")
	r.tag("v0.9.0")
	r.refused("Releases must be built with go1.0.1, the version in go.mod")
	r.ours()
	r.put("deploy/helm/genbus/Chart.yaml", "name: genbus\nversion: 1.0.1\nappVersion: 1.0.0\n")
	r.tag("v1.0.0")
	r.refused("The chart has version 1.0.1, but the tag is v1.0.0")
	r.tag("v1.0.1-rc.1") // its chart must name its image
	r.refused("The chart has version 1.0.1, but the tag is v1.0.1-rc.1")
	r.git("tag", "-d", "v1.0.0", "v1.0.1-rc.1")
	r.tag("v1.0.1")
	r.refused("The chart has appVersion 1.0.0, but the tag is v1.0.1")
	r.put("deploy/helm/genbus/Chart.yaml", "name: genbus\nversion: 1.0.2\nappVersion: 1.0.2\n")
	r.tag("v1.0.2")
	r.refused("deploy/allowed_signers is not committed")
}

// TestReleaseIgnoresGoSettings proves that settings of "go env -w" or the environment do not
// reach the compiler. A fake go command records its settings and fails.
func TestReleaseIgnoresGoSettings(t *testing.T) {
	t.Parallel()
	r := newReleases(t)
	found, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	told := filepath.Join(bin, "told")
	stand := "#!/bin/sh\n[ \"$1\" = build ] || exec '" + found + "' \"$@\"\n" +
		"'" + found + "' env GOAMD64 GOFIPS140 GOEXPERIMENT GOFLAGS GOWORK CGO_ENABLED > '" + told + "'\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(stand), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := "GOAMD64=v3\nGOFIPS140=latest\nGOEXPERIMENT=jsonv2\nGOFLAGS=-tags=x\nCGO_ENABLED=1\n"
	r.ours()
	r.put("deploy/helm/genbus/Chart.yaml", "version: 1.0.0\nappVersion: 1.0.0\n")
	r.put("deploy/allowed_signers", "genbus ssh-ed25519 AAAA\n")
	r.put(".gitignore", "/dist/\n")
	r.tag("v1.0.0")
	if err := os.WriteFile(filepath.Join(bin, "env"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	file := []string{"GOENV=" + filepath.Join(bin, "env")}
	for name, environ := range map[string][]string{"a file": file, "variables": strings.Fields(settings)} {
		of := *r
		of.environ = append(append([]string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}, r.environ...), environ...)
		if out, err := of.run("bash", "deploy/release", "linux/amd64"); err == nil {
			t.Errorf("%s: the script did not run the fake go command: %s", name, out)
		}
		if got, want := content(t, told), "v1\noff\n\n-mod=readonly\noff\n0\n"; got != want {
			t.Errorf("%s: built with %q, want %q", name, got, want)
		}
		if err := os.Remove(told); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReleaseIsSigned proves that users can verify the signature of the checksums with the command
// in docs/deploy.md, and that a key that they cannot know is refused.
func TestReleaseIsSigned(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	r := newReleases(t)
	for _, key := range []string{"key", "other"} {
		if out, err := r.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key); err != nil {
			t.Fatal(err, out)
		}
	}
	r.put("deploy/allowed_signers", "genbus "+content(t, filepath.Join(r.dir, "key.pub")))
	r.put("dist/SHA256SUMS", "the sums\n")
	if out, err := r.run("bash", "deploy/release", "sign", "other"); err == nil || !strings.Contains(out, "Users cannot verify this signature") {
		t.Errorf("an unknown key: %v: %s", err, out)
	}
	if out, err := r.run("bash", "-c", "cd deploy && bash release sign ../key"); err != nil {
		t.Fatal(err, out)
	}
	verify := "ssh-keygen -Y verify -n file -I genbus -f ../deploy/allowed_signers -s SHA256SUMS.sig < SHA256SUMS"
	if !strings.Contains(content(t, filepath.Join(root, "docs/deploy.md")), strings.ReplaceAll(verify, "../deploy/", "")) {
		t.Errorf("docs/deploy.md does not contain %s", verify)
	}
	if out, err := r.run("bash", "-c", "cd dist && "+verify); err != nil {
		t.Error(err, out)
	}
	r.put("dist/SHA256SUMS", "other sums\n")
	if out, err := r.run("bash", "-c", "cd dist && "+verify); err == nil {
		t.Errorf("changed sums are verified: %s", out)
	}
}

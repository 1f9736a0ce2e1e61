// Package install_test installs genbus as users do: with "go install", from a module proxy.
package install_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

var release = module.Version{Path: "github.com/genbus/genbus", Version: "v0.1.0-test"}

// TestInstalledProgramRunsTheDemo proves that "go install" accepts the module at HEAD, and that the
// installed program needs no other files.
func TestInstalledProgramRunsTheDemo(t *testing.T) {
	proxy, bin := publish(t), t.TempDir()
	// An empty module cache cannot have an earlier build of this version. All other modules come
	// from the machine's cache, if it has them.
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(run(t, nil, "go", "env", "GOMODCACHE"), "cache", "download") + "," + run(t, nil, "go", "env", "GOPROXY"),
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + bin, "GOFLAGS=-trimpath -modcacherw", "GOSUMDB=off", "GOWORK=off",
	}
	run(t, env, "go", "install", release.Path+"/cmd/genbus@"+release.Version)
	genbus := filepath.Join(bin, "genbus")
	if said := run(t, nil, genbus, "--version"); !strings.HasPrefix(said, release.Version+" ") {
		t.Errorf("the version is %q", said)
	}
	if said := run(t, nil, genbus, "demo"); !strings.Contains(said, "completed   video_") {
		t.Errorf("the demo has no finished video:\n%s", said)
	}
}

// publish writes the module at HEAD to a directory that is a module proxy.
func publish(t *testing.T) (proxy string) {
	t.Helper()
	clone, proxy := t.TempDir(), t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	run(t, nil, "git", "clone", "--quiet", "--shared", root, clone)
	mod, err := os.ReadFile(filepath.Join(clone, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, release.Path, "@v")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"list": release.Version + "\n", release.Version + ".info": `{"Version":"` + release.Version + `"}`, release.Version + ".mod": string(mod)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := os.Create(filepath.Join(dir, release.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := zip.CreateFromDir(archive, release, clone); err != nil {
		t.Fatal(err)
	}
	return proxy
}

// run runs a command in an empty directory and returns its output.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

package npm

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestALockThatDoesNotFit proves that a wrong lock has a distinct error. Treated as a missing
// package, it would skip the tests that need it on every machine.
func TestALockThatDoesNotFit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skipf("needs npm: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"b/package.json":    `{"name":"b","version":"1.0.0"}`,
		"package.json":      `{"name":"a","version":"1.0.0","dependencies":{"b":"file:b"}}`, // a local package needs no network
		"package-lock.json": `{"name":"a","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"a","version":"1.0.0"}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := install(t.Context(), dir); !errors.Is(err, errLock) {
		t.Errorf("got %v, want %v", err, errLock)
	}
}

// TestLocksNameNoRegistry proves that no lock contains package URLs, which would prevent
// installation from a mirror.
func TestLocksNameNoRegistry(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	locks := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "node_modules" || name == ".git") {
			return fs.SkipDir
		}
		if entry.Name() != "package-lock.json" {
			return nil
		}
		locks++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), `"resolved"`) {
			t.Errorf("%s names addresses: write it with npm install --package-lock-only --omit-lockfile-registry-resolved", path)
		}
		return err
	})
	if err != nil || locks == 0 {
		t.Errorf("%d locks: %v", locks, err)
	}
}

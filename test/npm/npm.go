// Package npm installs npm packages for tests. The packages are not part of genbus, so a test is
// skipped with the reason if they are unavailable.
package npm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// patience bounds one installation. If the registry does not respond in time, the test is skipped.
const patience = time.Minute

// Project copies the files of dir (package.json, its lock and scripts) to a temporary directory,
// installs the locked packages there and returns the path.
func Project(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue // node_modules of a manual run
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Install(t, to)
	return to
}

// Install installs the packages locked by package-lock.json into dir. It skips the test if node,
// npm or the packages are unavailable, and outside the full suite. The test fails if the lock file
// does not match.
func Install(t *testing.T, dir string) {
	t.Helper()
	brokertest.Full(t, "installs packages from npm")
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	switch err := install(t.Context(), dir); {
	case errors.Is(err, errLock):
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
}

// errLock reports a wrong package-lock.json. The file is part of this repository, so this fails on
// every machine.
var errLock = errors.New("package-lock.json does not fit package.json or the packages")

// install runs npm ci without the packages' own scripts.
func install(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("npm ci timed out after %s", patience))
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0", "--loglevel=error")
	npm.Dir, npm.WaitDelay = dir, time.Second
	out, err := npm.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bytes.Contains(out, []byte("EUSAGE")) || bytes.Contains(out, []byte("EINTEGRITY")):
		return fmt.Errorf("npm ci: %w: %.500s", errLock, out)
	default:
		return fmt.Errorf("npm ci: %w: %.300s", err, out)
	}
}

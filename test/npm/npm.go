// Package npm installs packages from npm for tests. They are not part of genbus:
// where they cannot be had, the test is skipped with the reason.
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

// patience bounds one installation. Where the registry does not answer, it ends the
// attempt and the test is skipped.
const patience = time.Minute

// Project copies dir, a package.json with its lock and programs, to a temporary
// directory, and installs there what the lock names.
func Project(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue // node_modules of a run by hand
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

// Install installs in dir what its package-lock.json names.
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

// errLock says that package-lock.json is wrong. It is ours, so that no machine can
// install it.
var errLock = errors.New("package-lock.json does not fit package.json or the packages")

// install runs npm. No script of a package is run.
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

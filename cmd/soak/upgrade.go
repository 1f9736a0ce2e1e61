package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

var commented = regexp.MustCompile(`(?m)^#([^#])`)

// acceptsConfiguration checks that a version accepts a configuration with every key of an earlier
// version, most of which the example has as comments with one #.
func acceptsConfiguration(ctx context.Context, dir, before, now string) error {
	example := exec.CommandContext(ctx, before, "config", "example")
	example.Env = serviceEnv()
	text, err := example.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", example, err)
	}
	file := filepath.Join(dir, "before.yaml")
	if err := os.WriteFile(file, commented.ReplaceAll(text, []byte("$1")), 0o600); err != nil {
		return err
	}
	check := exec.CommandContext(ctx, now, "config", "check", file)
	check.Env = serviceEnv("FIRST_UPSTREAM_KEY=a", "ACME_KEY=gb_acme-key-4444", "OPS_KEY=gb_operator-key-1")
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", check, err, out)
	}
	return nil
}

// replace ends a replica and starts its other version, with the same configuration and data.
func (s *storm) replace(ctx context.Context, at step) error {
	if err := s.fleet.switchVersion(s.fleet.replicas[at.Target]); err != nil {
		return err
	}
	if at.Action == replaceKill {
		return s.kill(ctx, at.Target, at.For)
	}
	return s.terminate(ctx, at.Target, at.For)
}

// switchVersion makes the next process of a replica run the other version. The running one goes on.
func (f *fleet) switchVersion(r *replica) error {
	now, err := os.Readlink(r.binary)
	if err != nil {
		return err
	}
	next := f.versions[(slices.Index(f.versions, now)+1)%len(f.versions)]
	progressf("%s: %s", r.Name, next)
	return errors.Join(os.Remove(r.binary), os.Symlink(next, r.binary))
}

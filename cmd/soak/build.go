package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const servicePath = "github.com/genbus/genbus/cmd/service"

// build builds the service into dir. If clock is true, the service's clock can be set.
func build(ctx context.Context, dir string, race, clock bool) (string, error) {
	binary := filepath.Join(dir, "service")
	args := buildArgs(binary, race)
	if clock {
		list, err := overlay(ctx, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", list)
	}
	if out, err := exec.CommandContext(ctx, "go", append(args, servicePath)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s (run soak inside the module, or give --service): %w\n%s", servicePath, err, out)
	}
	return binary, nil
}

func buildArgs(binary string, race bool) []string {
	if race {
		return []string{"build", "-race", "-o", binary}
	}
	return []string{"build", "-o", binary}
}

// buildCommit builds the service of a commit of this repository into dir.
func buildCommit(ctx context.Context, dir, commit string, race bool) (string, error) {
	source, binary := filepath.Join(dir, "before"), filepath.Join(dir, "service-before")
	compile := exec.CommandContext(ctx, "go", append(buildArgs(binary, race), servicePath)...)
	compile.Dir = source
	for _, command := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "clone", "--quiet", "--shared", "--no-checkout", ".", source),
		exec.CommandContext(ctx, "git", "-C", source, "checkout", "--quiet", commit),
		compile,
	} {
		if out, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s of commit %s (run soak at the root of the repository): %w\n%s", servicePath, commit, err, out)
		}
	}
	return binary, nil
}

func serviceEnv(extra ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GENBUS_") && !strings.HasPrefix(pair, "OTEL_") {
			env = append(env, pair)
		}
	}
	return append(env, extra...)
}

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	modulePath  = "github.com/genbus/genbus"
	servicePath = modulePath + "/cmd/service"
	// profileVariable is read by profiling.go.txt.
	profileVariable = "BENCH_PPROF_ADDR"
)

// profiling is added to a service built for profiling. The regular service has no such listener.
//
//go:embed profiling.go.txt
var profiling []byte

// workshop is the environment of one run, with its directory and the service binary.
type workshop struct {
	common
	dir     string
	service string // path of the binary
}

func (c common) open(ctx context.Context) (*workshop, error) {
	dir, err := os.MkdirTemp("", "genbus-bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{common: c, dir: dir, service: c.Service}
	if c.Profile != "" {
		err = os.MkdirAll(c.Profile, 0o750)
	}
	if err == nil && w.service == "" {
		progressf("building %s", servicePath)
		w.service, err = w.build(ctx)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *workshop) close() {
	if w.Keep {
		progressf("kept %s", w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		progressf("%v", err)
	}
}

func (w *workshop) build(ctx context.Context) (string, error) {
	binary := filepath.Join(w.dir, "service")
	args := []string{"build", "-o", binary}
	if w.Profile != "" {
		overlay, err := w.overlay(ctx)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	if out, err := exec.CommandContext(ctx, "go", append(args, servicePath)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s (run bench inside the module, or give --service): %w\n%s", servicePath, err, out)
	}
	return binary, nil
}

// overlay writes a build overlay that adds profiling to the service's package.
func (w *workshop) overlay(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", servicePath).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", servicePath, err)
	}
	source := filepath.Join(w.dir, "profiling.go")
	if err := os.WriteFile(source, profiling, 0o600); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(strings.TrimSpace(string(out)), "bench_profiling.go"): source},
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

//go:build unix

package faultinject

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func testSpec(t *testing.T, act string) Spec {
	t.Helper()
	log := filepath.Join(t.TempDir(), "child.log")
	return Spec{
		Path: os.Args[0], Env: append(os.Environ(), childEnv+"="+act), Log: log,
		Ready: func(context.Context) error {
			if beats(log) == 0 {
				return errNotSo
			}
			return nil
		},
	}
}

func beats(log string) int {
	b, err := os.ReadFile(log)
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "\n")
}

func start(t *testing.T, s Spec) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	p := start(t, testSpec(t, "beat"))
	first := p.Pid()
	if !p.Running() {
		t.Fatal("it does not run")
	}
	for range 2 { // the second has no effect
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	var exit *exec.ExitError
	if err := p.Wait(t.Context()); p.Running() || !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("running %t, %v", p.Running(), err)
	}
	if err := p.Restart(t.Context()); err != nil || !p.Running() || p.Pid() == first {
		t.Errorf("after the restart: %v, pid %d then %d", err, first, p.Pid())
	}
	if err := p.Restart(t.Context()); err != nil || !p.Running() {
		t.Errorf("a restart of a running process: %v", err)
	}
}

func TestProcessEndsWell(t *testing.T) {
	t.Parallel()
	p := start(t, testSpec(t, "beat"))
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("the end: %v", err)
	}
	if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to nobody: %v", err)
	}
}

func TestProcessStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, "beat")
	p := start(t, spec)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	before := -1
	await(t, "the silence", func() bool { // where Stop does not wait, the signal takes effect later
		last := before
		before = beats(spec.Log)
		return !Pause(t.Context(), quiet) || last == before
	})
	if !p.Running() {
		t.Error("a stopped process does not run")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for it: %v", err)
	}
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	await(t, "a beat", func() bool { return beats(spec.Log) > before })
	if err := errors.Join(p.Stop(), p.Kill()); err != nil {
		t.Errorf("killing a stopped process: %v", err)
	}
}

func TestProcessThatFails(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, "fail no disk")
	spec.Ready = func(context.Context) error { return errNotSo }
	if _, err := Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "no disk") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error: %v", err)
	}
	if _, err := Start(t.Context(), Spec{Path: filepath.Join(t.TempDir(), "nothing")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}

func TestProcessThatIsNeverReady(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, "beat")
	spec.Ready = func(context.Context) error { return errNotSo }
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	if _, err := Start(ctx, spec); !errors.Is(err, errNotSo) {
		t.Errorf("the error: %v", err)
	}
	lines := beats(spec.Log)
	if !Pause(t.Context(), quiet) || beats(spec.Log) != lines {
		t.Error("it still runs")
	}
}

// TestLeash proves that a child on a leash has its stdin open while this process runs.
func TestLeash(t *testing.T) {
	t.Parallel()
	p := start(t, Spec{Path: os.Args[0], Env: append(os.Environ(), childEnv+"=leash"), Leash: true})
	ctx, cancel := context.WithTimeout(t.Context(), quiet)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the leash has ended: %v", err)
	}
	p = start(t, Spec{Path: os.Args[0], Env: append(os.Environ(), childEnv+"=leash")})
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("without a leash: %v", err)
	}
}

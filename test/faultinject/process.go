package faultinject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	readyEvery = 20 * time.Millisecond
	readyTry   = 2 * time.Second
	// logTail is how many bytes of the log's end an error contains.
	logTail = 2 << 10
)

// Spec configures a process.
type Spec struct {
	// Path is the program. Args are its arguments without the program name.
	Path string
	Args []string
	// Env is the whole environment. If it is nil, the process inherits the environment of this
	// process.
	Env []string
	// Dir is the working directory. The default is the directory of this process.
	Dir string
	// Log is a file to which all runs append stdout and stderr. If it is empty, the output is
	// discarded.
	Log string
	// Ready is called until it returns nil. If it is nil, the process is ready once started.
	Ready func(ctx context.Context) error
	// Leash makes stdin a pipe that ends with this process. A child that reads its stdin can then
	// end with this process.
	Leash bool
}

// Process is a child process that can be started again after it ends. It is safe for concurrent
// use. Its signals need Linux or macOS.
type Process struct {
	spec Spec

	restarting sync.Mutex

	mu  sync.Mutex
	run *run
}

type run struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended is closed
}

// Start starts a process and waits until it is ready. After that, the process no longer depends on
// ctx. If the process ends early or is not ready before ctx ends, Start kills it and returns an
// error with the end of its log.
func Start(ctx context.Context, s Spec) (*Process, error) {
	p := &Process{spec: s}
	if err := p.Restart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart kills the process if it is running, starts it again and waits like Start. Concurrent
// restarts run one after another.
func (p *Process) Restart(ctx context.Context) error {
	p.restarting.Lock()
	defer p.restarting.Unlock()
	if err := p.Kill(); err != nil {
		return err
	}
	r, err := launch(p.spec)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.spec.Path, err)
	}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	if err := p.await(ctx, r); err != nil {
		return errors.Join(fmt.Errorf("%s: %w: %s", p.spec.Path, err, tail(p.spec.Log)), p.Kill())
	}
	return nil
}

func launch(s Spec) (*run, error) {
	cmd := exec.Command(s.Path, s.Args...)
	cmd.Env, cmd.Dir = s.Env, s.Dir
	if s.Log != "" {
		log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }() // the child has its own handle
		cmd.Stdout, cmd.Stderr = log, log
	}
	if s.Leash {
		// Nothing is written. The pipe closes when either process ends.
		if _, err := cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, ended: make(chan struct{})}
	go r.reap()
	return r, nil
}

func (r *run) reap() {
	defer close(r.ended)
	r.err = r.cmd.Wait()
}

func (r *run) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func (p *Process) await(ctx context.Context, r *run) error {
	for p.spec.Ready != nil {
		try, cancel := context.WithTimeout(ctx, readyTry)
		err := p.spec.Ready(try)
		cancel()
		if err == nil {
			return nil
		}
		if !r.alive() {
			return fmt.Errorf("ended before it was ready (%w)", r.err)
		}
		if !Pause(ctx, readyEvery) {
			return fmt.Errorf("not ready in time: %w (%w)", err, ctx.Err())
		}
	}
	return nil
}

func (p *Process) now() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// Pid returns the process ID of the current or last run, or 0.
func (p *Process) Pid() int {
	if r := p.now(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Running reports whether the process has not ended. A stopped process counts as running.
func (p *Process) Running() bool {
	r := p.now()
	return r != nil && r.alive()
}

// Wait waits until the process ends. It returns nil for status 0, and an error that wraps
// *exec.ExitError otherwise. If ctx ends first, it returns the error of ctx.
func (p *Process) Wait(ctx context.Context) error {
	r := p.now()
	if r == nil {
		return nil
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.spec.Path, ctx.Err())
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", p.spec.Path, r.err)
	}
	return nil
}

// Kill kills the process (SIGKILL), even a stopped one, and waits until it has ended. It returns
// nil if the process has already ended.
func (p *Process) Kill() error {
	r := p.now()
	if r == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.spec.Path, err)
	}
	<-r.ended
	return nil
}

func (p *Process) signal(s os.Signal) error {
	r := p.now()
	if r == nil {
		return fmt.Errorf("signal %s: %w", p.spec.Path, os.ErrProcessDone)
	}
	if err := r.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s with %s: %w", p.spec.Path, s, err)
	}
	return nil
}

func tail(path string) string {
	if path == "" {
		return "its log was discarded"
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(len(b)-logTail, 0):])
}

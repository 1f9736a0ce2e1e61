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
	// readyEvery is the time between two questions whether a process is ready.
	readyEvery = 20 * time.Millisecond
	// readyTry bounds one of them.
	readyTry = 2 * time.Second
	// logTail is how much of a log an error shows, in bytes.
	logTail = 2 << 10
)

// Spec says how a process is started.
type Spec struct {
	// Path is the program, Args are its arguments without its name.
	Path string
	Args []string
	// Env is the whole environment. Default nil: that of this process.
	Env []string
	// Dir is the working directory. Default: that of this process.
	Dir string
	// Log is a file that stdout and stderr are appended to, over all starts. Default:
	// discarded.
	Log string
	// Ready is asked again until it says nil. Default nil: ready once started.
	Ready func(ctx context.Context) error
	// Leash makes stdin a pipe that ends when this process does, so that a child
	// that reads it does not outlive us.
	Leash bool
}

// Process is a child process that is started, ended and started again. It is safe
// for concurrent use; its signals need Linux or macOS.
type Process struct {
	spec Spec

	restarting sync.Mutex

	mu  sync.Mutex
	run *run
}

// run is one life of a Process.
type run struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // valid once ended is closed
}

// Start starts a process and waits until it is ready. The process does not depend
// on ctx afterwards. One that ends or is not ready before ctx ends is killed, and
// the error shows the end of its log.
func Start(ctx context.Context, s Spec) (*Process, error) {
	p := &Process{spec: s}
	if err := p.Restart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart kills the process if it runs, starts it again and waits until it is
// ready, as Start does. Two restarts happen one after the other.
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
		// Nothing is written; the pipe closes with the process at either end.
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

// await asks until the process is ready.
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

// Pid is the process id of the current life, or of the last one.
func (p *Process) Pid() int {
	if r := p.now(); r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}

// Running says whether the process has not ended. A stopped one runs.
func (p *Process) Running() bool {
	r := p.now()
	return r != nil && r.alive()
}

// Wait waits until the process has ended: nil for status 0, otherwise an error
// that wraps *exec.ExitError; ctx's error when it ends before.
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

// Kill ends the process at once (SIGKILL), a stopped one too, and waits until it
// is gone. One that has ended is no error.
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

// tail is the end of a log.
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

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 5 * time.Second
	logTail      = 2 << 10 // bytes of a failed child's log to show
)

type child struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
	err  error         // valid after done is closed
}

// startChild runs a program until ctx ends or stop is called. It returns once each pattern has
// matched a line of standard output. The result contains the first group of each match.
func startChild(ctx context.Context, dir, name string, argv, env []string, patterns ...*regexp.Regexp) (*child, []string, error) {
	c := &child{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, nil, fmt.Errorf("log of %s: %w", name, err)
	}
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.cmd.Dir, c.cmd.Stderr, c.cmd.Env = dir, log, env
	c.cmd.WaitDelay = stopTimeout
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	c.cmd.Stdout = in
	err = errors.Join(c.cmd.Start(), in.Close(), log.Close())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start %s: %w", name, err), out.Close())
	}
	found := make(chan []string, 1)
	go func() {
		defer func() { _ = out.Close() }() // only read from
		found <- scan(out, patterns)
		_, _ = io.Copy(io.Discard, out) // keep the child from blocking on its output
	}()
	go func() {
		defer close(c.done)
		c.err = c.cmd.Wait()
	}()
	got, err := c.ready(ctx, found)
	if err != nil {
		c.stop()
		return nil, nil, err
	}
	return c, got, nil
}

// scan reads lines until every pattern has matched. It returns nil if the input ends first.
func scan(r io.Reader, patterns []*regexp.Regexp) []string {
	got := make([]string, len(patterns))
	missing := len(patterns)
	lines := bufio.NewScanner(r)
	for missing > 0 && lines.Scan() {
		for i, p := range patterns {
			if m := p.FindStringSubmatch(lines.Text()); got[i] == "" && m != nil {
				got[i] = m[1]
				missing--
			}
		}
	}
	if missing > 0 {
		return nil
	}
	return got
}

func (c *child) ready(ctx context.Context, found <-chan []string) ([]string, error) {
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case got := <-found:
		if got != nil {
			return got, nil
		}
		return nil, fmt.Errorf("%s ended before it was ready: %s", c.name, c.tail())
	case <-timer.C:
		return nil, fmt.Errorf("%s was not ready after %s: %s", c.name, startTimeout, c.tail())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *child) alive() error {
	select {
	case <-c.done:
		return fmt.Errorf("%s ended (%w): %s", c.name, c.err, c.tail())
	default:
		return nil
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// stop ends the process with SIGTERM, and after stopTimeout with SIGKILL.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
		return
	case <-timer.C:
	}
	_ = c.cmd.Process.Kill()
	<-c.done
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.done
}

func (c *child) tail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	if len(b) > logTail {
		b = b[len(b)-logTail:]
	}
	return strings.TrimSpace(string(b))
}

// childEnv returns the environment without genbus and OpenTelemetry variables, plus extra.
func childEnv(extra ...string) []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GENBUS_") && !strings.HasPrefix(pair, "OTEL_") {
			env = append(env, pair)
		}
	}
	// With a JSON log, the service prints no banner with its addresses.
	return append(append(env, "GENBUS_LOG_FORMAT=text"), extra...)
}

// pause waits for d or until ctx ends, and returns the cause of ctx. It duplicates functions in
// faultinject and broker, because importing them would link a NATS server into this binary, which
// is also the measured proxy.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package natsacl_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binaries are programs that are built once for all tests.
type binaries struct {
	packages []string
	once     sync.Once
	dir      string
	err      error
}

// Built separately, because most tests need only the service.
var (
	serviceProgram  = binaries{packages: []string{"./cmd/service"}}
	examplePrograms = binaries{packages: []string{"./examples/publish", "./examples/subscribe", "./examples/chat", "./examples/deadletters"}}
)

func program(t testing.TB, name string) string {
	t.Helper()
	if name == "service" {
		return serviceProgram.path(t, name)
	}
	return examplePrograms.path(t, name)
}

// path returns the path of a program. The first call builds all packages.
func (b *binaries) path(t testing.TB, name string) string {
	t.Helper()
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "natsacl"); b.err != nil { //nolint:usetesting // it outlives the test
			return
		}
		build := exec.Command("go", append([]string{"build", "-o", b.dir}, b.packages...)...)
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, name)
}

func (b *binaries) remove() error {
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}

type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	lines  chan string // of standard output, closed at its end
	stderr *output
	ended  chan error
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// spawn starts a program. It is killed if it still runs when the test ends.
func spawn(t testing.TB, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, lines: make(chan string, 4096), stderr: &output{}, ended: make(chan error, 1)}
	p.cmd = exec.Command(program(t, name), args...)
	p.cmd.Env, p.cmd.Stderr, p.cmd.WaitDelay = append(os.Environ(), env...), p.stderr, 10*time.Second
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go p.read(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // no effect if it has ended
		for range p.lines {
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.stderr)
		}
	})
	return p
}

func (p *process) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		p.lines <- s.Text()
	}
	p.ended <- p.cmd.Wait()
	close(p.lines)
}

// line waits for an output line that contains these words, and returns it.
func (p *process) line(words ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	var seen []string
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended without a line of %q: %q\n%s", p.cmd.Path, words, seen, p.stderr)
			}
			seen = append(seen, line)
			if hasAll(line, words) {
				return line
			}
		case <-ctx.Done():
			p.t.Fatalf("%s printed no line of %q, but %q", p.cmd.Path, words, seen)
		}
	}
}

func hasAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

func (p *process) wait() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("%s: %v\n%s", p.cmd.Path, err, p.stderr)
		}
	case <-time.After(patience):
		p.t.Errorf("%s does not end", p.cmd.Path)
	}
}

func (p *process) stop(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Error(err)
	}
	p.wait()
}

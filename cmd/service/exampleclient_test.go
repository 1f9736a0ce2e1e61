package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestFirstExample proves that the example in the README works.
func TestFirstExample(t *testing.T) {
	brokertest.Full(t, "builds a program")
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // including compilation
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "run", "../../examples/first", w.NATSURL()).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "JOB_STATUS_COMPLETED [url:\"http://") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestExampleClient proves that the example creates a video and lists finished videos, including
// one without an upstream URL.
func TestExampleClient(t *testing.T) {
	brokertest.Full(t, "builds a program")
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // including compilation
	defer cancel()
	program := filepath.Join(t.TempDir(), "client.exe")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "../../examples/client").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(ctx, program, "-nats", w.NATSURL()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "JOB_STATUS_COMPLETED  100 %\nhttp://") {
		t.Fatalf("%v: %s", err, out)
	}
	if status, answer := w.post(t, "/v1/videos", `{"model":"sandbox-videos","prompt":"a cat"}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	finished := exec.CommandContext(ctx, program, "-nats", w.NATSURL(), "-finished")
	finished.Stderr = os.Stderr
	lines, err := finished.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := finished.Start(); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(lines)
	for _, want := range []string{" http://", " /v1/videos/video_"} {
		if !read.Scan() || !strings.Contains(read.Text(), want) {
			t.Errorf("it printed %q, want %q", read.Text(), want)
		}
	}
	if err := finished.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := finished.Wait(); err != nil {
		t.Errorf("interrupted, it ended with %v", err)
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestGeneratedClientCompletesAVideo proves that the client generated from docs/openapi.json can
// create and download a video.
func TestGeneratedClientCompletesAVideo(t *testing.T) {
	brokertest.Full(t, "builds a program")
	t.Parallel()
	if _, err := os.Stat("../../examples/openapi/genbusapi"); err != nil {
		t.Skipf("the client is not generated (go generate -C examples/openapi .): %v", err)
	}
	w := newClientWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond}, func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].Poll.Interval = 50 * time.Millisecond
			}
		}
	})
	file := filepath.Join(t.TempDir(), "video.mp4")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // including compilation
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "run", "-C", "../../examples/openapi", ".", "-address", w.base, "-out", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	video, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(video, theClip(t)) || !bytes.Contains(out, []byte(" completed\n")) {
		t.Errorf("%d bytes of video; it said %s", len(video), out)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// openAINode is the package that the script in testdata/openai-node is for. It is
// installed for this test alone, and only where node and npm are.
const openAINode = "openai@7.55.0"

// nodeTime bounds the installation, and again the script.
const nodeTime = 30 * time.Second

// nodeProject installs the package beside the script, and gives the directory. It
// skips the test where that cannot be done.
func nodeProject(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("installs a package")
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	script, err := os.ReadFile("testdata/openai-node/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0", openAINode)
	install.Dir, install.WaitDelay = dir, time.Second
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install %s: %v: %.300s", openAINode, err, out)
	}
	return dir
}

// TestOpenAINode has the openai package for Node do all that it can do, and looks
// at what it was given.
func TestOpenAINode(t *testing.T) {
	t.Parallel()
	dir := nodeProject(t)
	w := newClientWorld(t, sandbox.Options{VideoDuration: 300 * time.Millisecond, ChunkInterval: time.Millisecond}, func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].Poll.Interval = 100 * time.Millisecond
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), nodeTime)
	defer cancel()
	node := exec.CommandContext(ctx, "node", "client.mjs")
	node.Dir, node.Env = dir, append(os.Environ(), "GENBUS_BASE_URL="+w.base)
	var out, said bytes.Buffer
	node.Stdout, node.Stderr = &out, &said
	if err := node.Run(); err != nil {
		t.Fatalf("the script failed: %v\n%s", err, said.String())
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	const sea = "You wrote 5 words in 18 characters."
	for _, row := range []struct {
		name string
		want map[string]any
	}{
		{"chat", map[string]any{"content": sea, "finish": "stop", "tokens": 25.0}},
		{"chat stream", map[string]any{"content": sea, "tokens": 25.0, "blocks": 23.0}},
		{"chat tools", map[string]any{"name": "count", "same": true, "finish": "stop"}},
		{"chat stream that breaks", map[string]any{"error": "APIError", "code": "stream_truncated"}},
		{"video", map[string]any{
			"object": "video", "status": "queued", "seconds": "4", "size": "1280x720", "end": "completed", "progress": 100.0,
			"error": nil, "type": "video/mp4", "bytes": base64.StdEncoding.EncodeToString(theClip(t)),
		}},
		{"video of a file", map[string]any{"end": "completed"}},
		{"video of a URL", map[string]any{"end": "completed"}},
		{"video that fails", map[string]any{"end": "failed", "code": "upstream_failed", "message": "text risk"}},
		{"videos listed", map[string]any{"count": 4.0, "reversed": true}},
		{"video deleted", map[string]any{"same": true, "deleted": true}},
		{"unknown video", map[string]any{"error": "NotFoundError", "status": 404.0, "code": "task_not_found"}},
		{"unknown model", map[string]any{"error": "NotFoundError", "status": 404.0, "code": "model_not_found"}},
		{"no prompt", map[string]any{"error": "BadRequestError", "status": 400.0, "code": "invalid_request"}},
		{"content too early", map[string]any{"error": "BadRequestError", "status": 400.0, "code": "content_not_ready"}},
		{"key used twice", map[string]any{"error": "UnprocessableEntityError", "status": 422.0, "code": "idempotency_key_reused"}},
		{"refused for good", map[string]any{"error": "BadRequestError", "code": "bad_prompt", "calls": 1.0}},
		{"final for its key", map[string]any{"error": "InternalServerError", "code": "upstream_unavailable", "calls": 1.0}},
		{"busy", map[string]any{"error": "RateLimitError", "code": "rate_limited", "calls": 2.0}},
		{"models", map[string]any{"has": true, "one": true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			result := inner(got, row.name)
			if row.name == "busy" && result["waited"].(float64) < 1000 {
				t.Errorf("it came again after %v ms", result["waited"])
			}
			if text := word(result["content"]); strings.HasPrefix(text, sea) {
				result["content"] = sea // the sandbox goes on for a while
			}
			for name := range result {
				if _, asked := row.want[name]; !asked {
					delete(result, name)
				}
			}
			if diff := cmp.Diff(row.want, result); diff != "" {
				t.Errorf("got %v (-want +got):\n%s", got[row.name], diff)
			}
		})
	}
}

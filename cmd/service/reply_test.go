package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

// TestALongReplyIsShown proves that a reply too large for one message is printed completely.
func TestALongReplyIsShown(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{ChunkInterval: time.Millisecond})
	const long = 300_000
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(`{"model":"sandbox-chat-fast:big_chunk_bytes=300000","messages":[{"role":"user","content":"hello"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	byGRPC := userCommand{t: t, args: []string{"--server", w.GRPCAddr().String()}}
	byNATS := userCommand{t: t, args: []string{"--nats", w.NATSURL()}}
	for name, c := range map[string]userCommand{"gRPC": byGRPC, "NATS": byNATS} {
		if out := c.ok("submit", "chat", "--body", file); len(out) < long {
			t.Errorf("by %s it printed %d bytes", name, len(out))
		}
	}
	var last struct{ Chat struct{ ID string } }
	lines := strings.Split(strings.TrimSpace(byGRPC.ok("submit", "chat", "--json", "--body", file)), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if out := byGRPC.ok("tasks", "get", last.Chat.ID); len(out) < long {
		t.Errorf("the chat is shown in %d bytes: %.500s", len(out), out)
	}
}

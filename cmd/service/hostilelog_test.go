package main

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/test/hostile"
)

// logBook checks log lines as they are written, and keeps only bad ones.
type logBook struct {
	secrets []string
	mu      sync.Mutex
	bad     []string
	lines   int
}

// Write receives one record, which is one line.
func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines++
	text := string(line)
	if why := b.judge(text); why != "" && len(b.bad) < 20 {
		b.bad = append(b.bad, why+": "+text)
	}
	return len(line), nil
}

func (b *logBook) judge(text string) string {
	for _, secret := range b.secrets {
		if strings.Contains(text, secret) {
			return "a secret or a prompt"
		}
	}
	switch {
	case !strings.HasPrefix(text, "time=") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n"):
		return "a record that is not one line"
	case strings.ContainsFunc(strings.TrimSuffix(text, "\n"), func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "a control character"
	case strings.Contains(text, "component=nats-server"): // reports clients that break the NATS protocol
	case strings.Contains(text, " level=ERROR "), strings.Contains(text, "panic"):
		return "an error of the service's own"
	}
	return ""
}

func (b *logBook) wrong() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bad
}

// TestEveryLineIsALogLine proves that stderr contains only log records, whatever a client sends.
func TestEveryLineIsALogLine(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, header := range []string{"Content-Type: application/json; boundary", "Content-Type: /", "Tracestate: \xff", "X-Forwarded-For: \xff", "Grpc-Timeout: x", "Grpc-Metadata-X-Bin: !!"} {
		in := hostile.Input{Bytes: []byte("GET /genbus/v1/videos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + hostileKey + "\r\n" + header + "\r\n\r\n")}
		if _, err := talk(f.http, in); err != nil {
			t.Error(err)
		}
	}
	for _, in := range []string{hostile.Preface + "garbage that is no frame", "GET / HTTP/1.1\r\n\r\n"} {
		if _, err := talk(f.grpc, hostile.Input{Bytes: []byte(in), Cut: true}); err != nil {
			t.Error(err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+hostileKey)
	if _, err := genbusv1grpc.NewVideoServiceClient(f.conn).ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{}); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(f.log.String()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("%q", line)
		}
	}
}

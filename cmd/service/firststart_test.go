package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFirstStartLogsNoWarning proves that a first start with default settings logs no warning until
// it stops. Exception: without a banner, the log warns that no upstream is configured.
func TestFirstStartLogsNoWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted there")
	}
	for name, args := range map[string][]string{"serve": {"serve"}, "serve --sandbox": {"serve", "--sandbox"}, "serve 2>&1": {"serve"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, log bytes.Buffer
			addr := freeAddr(t)
			child := exec.CommandContext(t.Context(), os.Args[0], args...)
			child.Dir = t.TempDir() // for ./data
			child.Env = append(os.Environ(), runAsService+"=1", "GENBUS_HTTP_ADDR="+addr, "GENBUS_GRPC_ADDR=127.0.0.1:0", "GENBUS_NATS_LISTEN="+freeAddr(t))
			child.Stdout, child.Stderr = &out, &log
			warned, together := 0, name == "serve 2>&1"
			if together {
				child.Stdout = &log
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, "the service", func() bool { return calls(t, http.MethodGet, "http://"+addr+"/readyz/jobs", "") })
			if len(args) > 1 && !calls(t, http.MethodPost, "http://"+addr+"/v1/chat/completions", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`) {
				t.Error("the first chat failed")
			}
			if err := child.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := child.Wait(); err != nil {
				t.Errorf("%v\n%s", err, &log)
			}
			if _, err := os.Stat(filepath.Join(child.Dir, "data")); err != nil {
				t.Errorf("the directory was not used: %v", err)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			for _, line := range lines {
				var record struct{ Level, Msg string }
				err := json.Unmarshal([]byte(line), &record)
				switch {
				case err == nil && record.Level == "WARN" && strings.HasPrefix(record.Msg, "refusing all requests, no upstream configured"):
					warned++
				case err != nil || record.Level != "INFO":
					t.Errorf("the log says %s", line)
				}
			}
			if want := map[bool]int{true: 1}[together]; warned != want {
				t.Errorf("it warned %d times, not %d, of no upstream", warned, want)
			}
			if last := lines[len(lines)-1]; !strings.Contains(last, `"msg":"stopped"`) {
				t.Errorf("the log ends with %s", last)
			}
		})
	}
}

// calls reports whether a call returns 200. A chat goes through the queue.
func calls(t *testing.T, method, url, body string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "first")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // not listening yet
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

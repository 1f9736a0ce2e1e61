//go:build !windows

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

// TestSignalReloads proves that SIGHUP reloads a valid configuration, rejects an invalid one, and
// never ends the process.
func TestSignalReloads(t *testing.T) {
	t.Parallel()
	up, log, dir, addr := startSandbox(t, sandbox.Options{VideoDuration: 50 * time.Millisecond}), &lockedBuffer{}, t.TempDir(), freeAddr(t)
	file := filepath.Join(dir, "genbus.yaml")
	write := func(more string) {
		t.Helper()
		text := fmt.Sprintf("upstreams: {up: {base_url: %q}}\n", up.URL()) + reloadRoutes(fmt.Sprintf(reloadVideo, 5)) + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	cmd := exec.Command(os.Args[0], "serve", "--config", file)
	cmd.Env = append(os.Environ(), runAsService+"=1", "GENBUS_HTTP_ADDR="+addr, "GENBUS_GRPC_ADDR=127.0.0.1:0", "GENBUS_NATS_LISTEN=none", "GENBUS_LOG_FORMAT=text",
		"GENBUS_DATA_DIR="+filepath.Join(dir, "data"), "GENBUS_NATS_SYNC_ALWAYS=false", "FROM_THE_START=gb_key-0123456789abcdef")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
	})
	status := func(key string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	hup := func(logged string) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		await(t, logged, func() bool { return strings.Contains(log.String(), logged) })
	}
	await(t, "the service", func() bool { return status("anything") == http.StatusOK })
	write("api_kyes: []\n")
	hup("genbus.yaml:3: api_kyes is not a known key; did you mean api_keys?")
	if got := status("anything"); got != http.StatusOK {
		t.Errorf("a wrong file changed something: %d", got)
	}
	write("api_keys: [{tenant: acme, key_env: FROM_THE_START}]\nlog: {level: warn}\nshutdown: {grace: 7s}\n")
	hup("some changes need a restart and were not applied\" keys=[shutdown.grace]")
	if strings.Contains(log.String(), "reloaded configuration") {
		t.Error("the level of the log is as it was")
	}
	if got := status("anything"); got != http.StatusUnauthorized {
		t.Errorf("without the key: %d", got)
	}
	if got := status("gb_key-0123456789abcdef"); got != http.StatusOK {
		t.Errorf("with the key: %d", got)
	}
}

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestSystemdIsNotified proves that a service with Type=notify reports its start and stop to
// systemd.
func TestSystemdIsNotified(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("systemd is of Linux, and its datagram sockets are of Unix")
	}
	dir, err := os.MkdirTemp("", "sd") //nolint:usetesting // a socket address is too short for t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = systemd.Close() }()
	if err := systemd.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "serve")
	child.Env = append(os.Environ(), runAsService+"=1", "NOTIFY_SOCKET="+socket, "GENBUS_DATA_DIR="+filepath.Join(dir, "data"),
		"GENBUS_HTTP_ADDR=127.0.0.1:0", "GENBUS_GRPC_ADDR=127.0.0.1:0", "GENBUS_NATS_LISTEN=none")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	told := func(want string) {
		t.Helper()
		message := make([]byte, 64)
		n, err := systemd.Read(message)
		if err != nil || string(message[:n]) != want {
			t.Fatalf("told %q, want %s (%v)", message[:n], want, err)
		}
	}
	told("READY=1")
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1")
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

package process

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// listen opens systemd's end of the socket.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Skipf("this system has no datagram sockets of this kind: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// shortDir returns a directory whose name fits into a socket address.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd") //nolint:usetesting // t.TempDir is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestNotify(t *testing.T) {
	names := []string{filepath.Join(shortDir(t), "notify")}
	if runtime.GOOS == "linux" {
		names = append(names, "@genbus-test-"+filepath.Base(shortDir(t)))
	}
	for _, name := range names {
		systemd := listen(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		for _, state := range []State{Ready, Stopping} {
			if err := Notify(state); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 64)
			n, err := systemd.Read(got)
			if err != nil || State(got[:n]) != state {
				t.Errorf("%s: %q, %v", name, got[:n], err)
			}
		}
	}
}

func TestNotifyWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(shortDir(t), "nobody"))
	if err := Notify(Ready); err == nil || !strings.Contains(err.Error(), "NOTIFY_SOCKET") {
		t.Errorf("nobody listens: %v", err)
	}
}

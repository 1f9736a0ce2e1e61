package brokertest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// smallDisk names the mount point in the child process.
const smallDisk = "GENBUS_TEST_SMALL_DISK"

// SmallDisk reruns the test in a child process with a 224 MiB file system. inside reports whether
// this is the child.
func SmallDisk(t *testing.T) (dir string, inside bool) {
	t.Helper()
	if dir := os.Getenv(smallDisk); dir != "" {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=224m"); err != nil {
			t.Fatal(err)
		}
		return dir, true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), smallDisk+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this system has no user namespaces for a small file system: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return "", false
}

// FillDisk creates the file filler, which leaves free bytes on its file system.
func FillDisk(t *testing.T, filler string, free int64) {
	t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(filler), &fs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	err = syscall.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-free)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

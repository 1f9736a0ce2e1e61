package brokertest

import (
	"os"
	"syscall"
)

// memoryDir returns a writable in-memory directory, or "" if there is none. Programs must be able
// to run from it, because some tests build programs and run them.
func memoryDir() string {
	const dir, noExec = "/dev/shm", 8 // ST_NOEXEC
	var free syscall.Statfs_t
	if err := syscall.Statfs(dir, &free); err != nil || free.Flags&noExec != 0 || free.Bavail*uint64(free.Bsize) < leastMemory {
		return ""
	}
	probe, err := os.MkdirTemp(dir, "genbus-")
	if err != nil {
		return ""
	}
	if os.Remove(probe) != nil {
		return ""
	}
	return dir
}

package brokertest

import (
	"os"
	"syscall"
)

// memoryDir returns a writable directory in memory, or "" without one from which programs can run;
// some tests run the programs that they build.
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

package brokertest

import (
	"os"
	"syscall"
)

// memoryDir is a writable directory in memory; empty where there is none.
func memoryDir() string {
	const dir = "/dev/shm"
	var free syscall.Statfs_t
	if err := syscall.Statfs(dir, &free); err != nil || free.Bavail*uint64(free.Bsize) < leastMemory {
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

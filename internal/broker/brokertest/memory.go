package brokertest

import (
	"flag"
	"os"
)

// leastMemory is the required free space of a file system in memory, in bytes. In containers, it is
// often 64 MiB.
const leastMemory = 2 << 30

// StoreInMemory moves the temporary directories of a package's tests to a large enough file system
// in memory, if there is one. On a disk, a JetStream server would spend most of its time on many
// small files. Benchmarks measure the disk and stay on it. TMPDIR takes precedence. Tests calls it;
// a TestMain without Tests must call it after flag.Parse.
func StoreInMemory() {
	if os.Getenv("TMPDIR") != "" || flag.Lookup("test.bench").Value.String() != "" {
		return
	}
	if dir := memoryDir(); dir != "" {
		_ = os.Setenv("TMPDIR", dir) // on failure, the disk is used
	}
}

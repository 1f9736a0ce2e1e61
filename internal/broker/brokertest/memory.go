package brokertest

import (
	"flag"
	"os"
)

// leastMemory is what the file system in memory must have free, in bytes. Containers often
// have one of 64 MiB.
const leastMemory = 2 << 30

// StoreInMemory has the tests of a package make their directories in memory, where the system
// has a file system there that is large enough: a JetStream server writes many small files,
// and on a disk most of its time is spent in the file system. Benchmarks stay on the disk, as
// they measure it. TMPDIR, where it is set, decides. Tests calls it; a TestMain without Tests
// calls it after flag.Parse.
func StoreInMemory() {
	if os.Getenv("TMPDIR") != "" || flag.Lookup("test.bench").Value.String() != "" {
		return
	}
	if dir := memoryDir(); dir != "" {
		_ = os.Setenv("TMPDIR", dir) // without it the disk serves
	}
}

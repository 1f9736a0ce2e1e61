package brokertest

import (
	"flag"
	"os"
)

// leastMemory is the free space, in bytes, that an in-memory file system must have. In containers,
// such a file system often has only 64 MiB.
const leastMemory = 2 << 30

// StoreInMemory moves the temporary directories of a package's tests to an in-memory file system,
// if there is one that is large enough. On a disk, a JetStream server would spend most of its time
// on many small files. Benchmarks stay on the disk, because they measure it. TMPDIR takes
// precedence. Tests.Run calls StoreInMemory. A TestMain that does not use Tests must call it after
// flag.Parse.
func StoreInMemory() {
	if os.Getenv("TMPDIR") != "" || flag.Lookup("test.bench").Value.String() != "" {
		return
	}
	if dir := memoryDir(); dir != "" {
		_ = os.Setenv("TMPDIR", dir) // on failure, the disk is used
	}
}

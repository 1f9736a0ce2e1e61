// Package faultinject causes faults for a whole genbus deployment. It provides an upstream that
// misbehaves and keeps a ledger, network links that can be cut, and processes that can be killed.
// From the links and processes it builds a cluster of real broker nodes. Package check decides what
// must hold under the faults.
//
// Tests and cmd/soak both use it, so it takes contexts and returns errors.
//
// # Not simulated
//
// Power loss is simulated by test/powercut only. SIGKILL ends a process but not the kernel, so
// everything that the process has written survives, synced or not. Test results are valid for
// crashed processes and cut networks, but do not show whether a write reached the disk. The package
// does not change clocks, fill disks or corrupt bytes in transit.
//
// # Replaying
//
// What an [Upstream] does to a request depends on its seed, on the kind of the request, on the
// Idempotency-Key (for a poll, the key of the task's create), and on the number of earlier requests
// of that kind and key. It does not depend on the order in which requests of different jobs arrive.
// Therefore the same seed and mix give the same job the same faults. The caller decides when to
// kill processes and cut links.
package faultinject

// Package faultinject makes trouble for a whole genbus: an upstream that
// misbehaves and keeps a ledger, network links that can be cut, processes that
// can be killed, and a cluster of real broker nodes made of them. It judges
// nothing; what must hold under the trouble is the matter of package check.
//
// It is for tests and for cmd/soak. It takes contexts and returns errors, so that
// both can use it.
//
// # What is not simulated
//
// Power loss is not; test/powercut cuts the power. SIGKILL ends a process but not
// the kernel, so everything that a process has written survives, synced or not:
// what the tests show holds for crashes of processes and for cut networks, and says
// nothing of whether a write reached the disk. Clocks do not jump, disks do not fill
// or lie, and bytes are never changed on their way.
//
// # Replaying
//
// What an [Upstream] does to a request depends on its seed, on the kind of the
// request, on the Idempotency-Key (of a poll: that of the task's create), and on
// how many such requests came before; not on the order in which requests of
// different jobs arrive. The same seed with the same mix therefore meets the same
// job with the same faults. When processes are killed and links are cut is up to
// the caller.
package faultinject

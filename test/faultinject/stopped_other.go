//go:build unix && !linux

package faultinject

// awaitStopped does not wait: waitid is not portable, and wait4 would take the exit of the
// process from Wait.
func (p *Process) awaitStopped() error { return nil }

//go:build unix && !linux

package faultinject

// awaitStopped does not wait, because waitid is not portable and wait4 would take the exit status
// from Wait.
func (p *Process) awaitStopped() error { return nil }

//go:build unix

package faultinject

import "syscall"

// Terminate asks the process to end (SIGTERM) and does not wait. A stopped process gets the signal
// after Continue.
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Reload asks the process to reload its configuration (SIGHUP).
func (p *Process) Reload() error { return p.signal(syscall.SIGHUP) }

// Stop stops the process (SIGSTOP) until Continue. Its connections stay open. On Linux, all of its
// threads have stopped when Stop returns. Elsewhere, they may run for a moment longer.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStopped()
}

// Continue resumes a stopped process (SIGCONT).
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

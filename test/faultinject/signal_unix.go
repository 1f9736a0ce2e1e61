//go:build unix

package faultinject

import "syscall"

// Terminate asks the process to end (SIGTERM). It does not wait; a stopped process
// hears of it when it goes on.
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Reload asks the process to read its configuration again (SIGHUP).
func (p *Process) Reload() error { return p.signal(syscall.SIGHUP) }

// Stop stops the process where it is (SIGSTOP), until Continue. Its connections
// stay open. On Linux all its threads stand still when Stop returns; elsewhere they
// may run on for a moment.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStopped()
}

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

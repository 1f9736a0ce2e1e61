//go:build unix

package faultinject

import "syscall"

// Terminate asks the process to end (SIGTERM). It does not wait; a stopped process
// hears of it when it goes on.
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Reload asks the process to read its configuration again (SIGHUP).
func (p *Process) Reload() error { return p.signal(syscall.SIGHUP) }

// Stop stops the process where it is (SIGSTOP), until Continue. Its connections
// stay open.
func (p *Process) Stop() error { return p.signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

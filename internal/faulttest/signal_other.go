//go:build !unix

package faulttest

import (
	"errors"
	"runtime"
)

var errSignals = errors.New("faulttest: processes cannot be signalled on " + runtime.GOOS + "; use Linux or macOS")

// Terminate is an error on this system.
func (p *Process) Terminate() error { return errSignals }

// Reload is an error on this system.
func (p *Process) Reload() error { return errSignals }

// Stop is an error on this system.
func (p *Process) Stop() error { return errSignals }

// Continue is an error on this system.
func (p *Process) Continue() error { return errSignals }

//go:build !unix

package faultinject

import (
	"errors"
	"runtime"
)

var errSignals = errors.New("faultinject: processes cannot be signalled on " + runtime.GOOS + "; use Linux or macOS")

// Terminate returns an error on this system.
func (p *Process) Terminate() error { return errSignals }

// Reload returns an error on this system.
func (p *Process) Reload() error { return errSignals }

// Stop returns an error on this system.
func (p *Process) Stop() error { return errSignals }

// Continue returns an error on this system.
func (p *Process) Continue() error { return errSignals }

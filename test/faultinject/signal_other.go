//go:build !unix

package faultinject

import (
	"errors"
	"runtime"
)

var errSignals = errors.New("faultinject: processes cannot be signalled on " + runtime.GOOS + "; use Linux or macOS")

// Terminate fails on this system.
func (p *Process) Terminate() error { return errSignals }

// Reload fails on this system.
func (p *Process) Reload() error { return errSignals }

// Stop fails on this system.
func (p *Process) Stop() error { return errSignals }

// Continue fails on this system.
func (p *Process) Continue() error { return errSignals }

//go:build !windows

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload hears of SIGHUP from now on. Signals that come while one is being dealt
// with are one.
func notifyReload() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

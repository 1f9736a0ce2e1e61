//go:build !windows

package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload subscribes to SIGHUP. Signals that arrive during a reload cause one more reload.
func notifyReload() (signals <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

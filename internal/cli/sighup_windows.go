package cli

import "os"

// notifyReload returns no signals, because Windows has no SIGHUP.
func notifyReload() (signals <-chan os.Signal, stop func()) { return nil, func() {} }

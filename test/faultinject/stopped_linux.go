package faultinject

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// awaitStopped waits until the process has stopped or ended. kill(2) returns as soon as the signal
// is pending. The threads keep running until one of them is scheduled and handles it.
func (p *Process) awaitStopped() error {
	pid := p.Pid()
	for {
		// WNOWAIT leaves the state and the exit status to Wait and the next Stop. Without WEXITED,
		// a kill during this wait would not end it.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ECHILD):
			return fmt.Errorf("stop process %d: %w", pid, os.ErrProcessDone)
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait until process %d is stopped: %w", pid, err)
		}
	}
}

package process

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// State is a state reported to systemd.
type State string

// States of a service.
const (
	Ready    State = "READY=1"    // it has started
	Stopping State = "STOPPING=1" // it is stopping
)

// Notify reports the state to systemd (sd_notify(3)), for a unit with Type=notify, through the
// socket in NOTIFY_SOCKET: a path, or "@" and a name in Linux's abstract namespace. Without that
// variable it does nothing. It does not wait for systemd.
func Notify(state State) (err error) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd of %s (NOTIFY_SOCKET): %w", state, err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err = conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd of %s (NOTIFY_SOCKET): %w", state, err)
	}
	return nil
}

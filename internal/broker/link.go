package broker

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// link is one connection to the server. The client library reconnects it.
type link struct {
	nc     *nats.Conn
	log    *slog.Logger
	name   string
	state  *connState
	closed chan struct{}
	// onLost is called when the connection is lost, onBack after a reconnect. Set both before dial.
	onLost, onBack func()

	payload atomic.Int64 // smallest max_payload seen, in bytes; 0 if none
}

func newLink(name string, log *slog.Logger) *link {
	return &link{name: name, log: log, state: newConnState(), closed: make(chan struct{}), onLost: func() {}, onBack: func() {}}
}

// The client replaces a connection that silently drops packets once pingsOut pings in a row are
// unanswered, 10 to 15 s after the last answer. With the client's defaults, every request would
// fail for six minutes.
const (
	pingEvery = 5 * time.Second
	pingsOut  = 2
)

// answersOfOne is the size, in messages, of the buffer for the answers to one request. It exceeds
// the longest answer to a direct get (pageMessages, MaxSubjects) and the number of replicas in a
// fleet. The client allocates it for each request, and its default of 65,536 messages would cost
// half a megabyte per read.
const answersOfOne = 2048

const dialTimeout = 10 * time.Second

func (l *link) dial(url string, opts []nats.Option) (err error) {
	l.nc, err = nats.Connect(url, append([]nats.Option{
		nats.Name(l.name),
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(pingsOut),
		// Disable the client's buffer, so that publishing fails while disconnected. A buffered
		// message would be sent after its caller has given up.
		nats.ReconnectBufSize(-1),
		nats.SyncQueueLen(answersOfOne),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.lost(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { l.back() }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) { l.asyncError(s, err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(l.closed) }),
	}, opts...)...)
	if err != nil {
		return fmt.Errorf("connect to NATS at %q: %w", url, err)
	}
	return nil
}

// lost is also called after close, with a nil error.
func (l *link) lost(err error) {
	l.state.lost()
	l.onLost()
	if err != nil {
		l.log.Warn("lost NATS connection", "connection", l.name, "error", err)
	}
}

func (l *link) back() {
	l.state.connected()
	l.log.Info("restored NATS connection", "connection", l.name)
	l.onBack()
}

func (l *link) asyncError(s *nats.Subscription, err error) {
	if s == nil {
		l.log.Warn("received asynchronous NATS error", "connection", l.name, "error", err)
		return
	}
	l.log.Warn("received asynchronous NATS error", "connection", l.name, "error", err, "subject", s.Subject)
}

// isUp reports whether the link is connected. It does not use nats.Conn.IsConnected, which waits
// for a lock that the client holds while it writes to a server that does not read.
func (l *link) isUp() bool {
	down, _ := l.state.now()
	return down.Err() == nil
}

const flushTimeout = 2 * time.Second

// close flushes messages that no caller waits for, such as acks, and closes the connection.
func (l *link) close() {
	if l.nc == nil {
		return
	}
	if l.nc.IsConnected() {
		if err := l.nc.FlushTimeout(flushTimeout); err != nil {
			l.log.Warn("could not flush NATS connection", "connection", l.name, "error", err)
		}
	}
	l.nc.Close()
	<-l.closed
}

// maxPayload returns the smallest max_payload seen since the process started, in bytes. The limit
// may come from the server, the account or the user.
func (l *link) maxPayload() int64 {
	now := l.nc.MaxPayload()
	for {
		seen := l.payload.Load()
		if seen != 0 && seen <= now {
			return seen
		}
		if l.payload.CompareAndSwap(seen, now) {
			return now
		}
	}
}

// minPayload is enough for a video result and for every event without a body.
const minPayload = 64 << 10

// checkServer returns an error if genbus cannot work with the connected server.
func (l *link) checkServer() error {
	if err := checkVersion(l.nc.ConnectedServerName(), l.nc.ConnectedServerVersion()); err != nil {
		return err
	}
	if most := l.maxPayload(); most < minPayload {
		return fmt.Errorf("NATS max_payload is %d bytes (server, account or user limit); genbus needs at least %d", most, minPayload)
	}
	return nil
}

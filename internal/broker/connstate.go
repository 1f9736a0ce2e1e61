package broker

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"
)

// connState tells whether there is a connection. The answer to a request that was under way
// when one was lost never comes, and the client itself would wait for it.
type connState struct {
	mu   sync.Mutex
	down context.Context // ends when the connection is lost
	cut  context.CancelFunc
	up   chan struct{} // is closed while there is a connection
}

func newConnState() *connState {
	l := &connState{up: make(chan struct{})}
	l.connected()
	return l
}

// lost and connected are called in the order in which it happened.
func (l *connState) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down.Err() == nil {
		l.up = make(chan struct{})
		l.cut()
	}
}

func (l *connState) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil || l.down.Err() != nil {
		l.down, l.cut = context.WithCancel(context.Background()) //nolint:forbidigo // a connection belongs to no call
		close(l.up)
	}
}

func (l *connState) now() (down context.Context, up <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down, l.up
}

// ask sends a request that is harmless to repeat, and repeats it where its connection
// was lost under way. Without a connection it fails at once.
func (b *Broker) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		down, _ := b.conn.now()
		if down.Err() != nil {
			return b.nc.RequestWithContext(ctx, subject, body) // which the client refuses to send
		}
		m, err := b.askOver(ctx, down, subject, body)
		if err == nil || down.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrReconnectBufExceeded) {
			return m, err
		}
		_, up := b.conn.now()
		select {
		case <-up:
		case <-b.closed:
			return nil, nats.ErrConnectionClosed
		case <-ctx.Done():
			return nil, errors.Join(nats.ErrDisconnected, context.Cause(ctx))
		}
	}
}

// askOver asks over one connection, and gives up when it is lost.
func (b *Broker) askOver(ctx, down context.Context, subject string, body []byte) (*nats.Msg, error) {
	try, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(down, cancel)()
	return b.nc.RequestWithContext(try, subject, body)
}

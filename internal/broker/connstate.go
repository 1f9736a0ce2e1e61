package broker

import (
	"context"
	"sync"
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
	s := &connState{up: make(chan struct{})}
	s.connected()
	return s
}

// lost and connected are called in the order in which it happened.
func (s *connState) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down.Err() == nil {
		s.up = make(chan struct{})
		s.cut()
	}
}

func (s *connState) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil || s.down.Err() != nil {
		s.down, s.cut = context.WithCancel(context.Background()) //nolint:forbidigo // a connection belongs to no call
		close(s.up)
	}
}

func (s *connState) now() (down context.Context, up <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down, s.up
}

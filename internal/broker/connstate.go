package broker

import (
	"context"
	"sync"
)

// connState tracks whether a connection is up. If a connection is lost, the answers to requests in
// flight are lost too, but the client library keeps waiting for them.
type connState struct {
	mu   sync.Mutex
	down context.Context // ends when the connection is lost
	cut  context.CancelFunc
	up   chan struct{} // closed while there is a connection
}

func newConnState() *connState {
	s := &connState{up: make(chan struct{})}
	s.connected()
	return s
}

// Call lost and connected in the order of the events.
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
		s.down, s.cut = context.WithCancel(context.Background()) //nolint:forbidigo // a connection outlives any call
		close(s.up)
	}
}

func (s *connState) now() (down context.Context, up <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down, s.up
}

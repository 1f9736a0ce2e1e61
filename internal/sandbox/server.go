package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server is a Sandbox that listens.
type Server struct {
	// Sandbox is the handler, for SetBehaviour and Stats.
	Sandbox *Sandbox

	http   *http.Server
	addr   net.Addr
	ended  chan struct{} // closed when serving has ended
	result error         // of serving; valid once ended is closed
}

// Start listens on addr ("127.0.0.1:0" picks a free port) and serves until Close
// or Shutdown. The error names the address.
func Start(addr string, opts Options) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start sandbox on %s: %w", addr, err)
	}
	sb := New(opts)
	s := &Server{
		Sandbox: sb,
		http: &http.Server{
			Handler:           sb,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			// Reset connections are what this server is for; they are no news.
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		},
		addr:  listener.Addr(),
		ended: make(chan struct{}),
	}
	go s.serve(listener)
	return s, nil
}

func (s *Server) serve(listener net.Listener) {
	defer close(s.ended)
	if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		s.result = fmt.Errorf("serve sandbox on %s: %w", s.addr, err)
	}
}

// URL is the base address, such as "http://127.0.0.1:8090".
func (s *Server) URL() string { return "http://" + s.addr.String() }

// Wait blocks until serving has ended; nil when Close or Shutdown ended it.
func (s *Server) Wait() error {
	<-s.ended
	return s.result
}

// Shutdown stops listening, cuts hanging and delayed requests, lets the others
// finish until ctx ends, then cuts those as well. It may be called twice.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Sandbox.Close()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("shut down sandbox: %w", err)
	}
	return errors.Join(err, s.Close())
}

// Close cuts every connection and waits for the requests in hand to return. It
// may be called twice.
func (s *Server) Close() error {
	s.Sandbox.Close()
	err := s.http.Close()
	s.Sandbox.idle()
	<-s.ended
	if err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

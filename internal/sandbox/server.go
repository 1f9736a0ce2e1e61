package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server is a Sandbox with a listener.
type Server struct {
	// Sandbox is the handler, for SetBehaviour and Stats.
	Sandbox *Sandbox

	http   *http.Server
	addr   net.Addr
	ended  chan struct{} // closed when serving has ended
	failed error         // the error that ended serving, except after Close; valid once ended is closed
}

// Start listens on addr ("127.0.0.1:0" selects a free port) and serves until Close. The error names
// the address.
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
			// Connection resets are intentional and need no log.
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
		s.failed = fmt.Errorf("serve sandbox on %s: %w", s.addr, err)
	}
}

// URL returns the base address, such as "http://127.0.0.1:8090".
func (s *Server) URL() string { return "http://" + s.addr.String() }

// Close cuts every connection and waits for running requests to return. It may be called twice. The
// error includes any error that ended serving earlier.
func (s *Server) Close() error {
	s.Sandbox.Close()
	err := s.http.Close()
	s.Sandbox.idle()
	<-s.ended
	if err != nil {
		err = fmt.Errorf("close sandbox: %w", err)
	}
	return errors.Join(err, s.failed)
}

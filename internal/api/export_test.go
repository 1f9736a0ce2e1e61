package api

import "time"

// SetWriteTimeout shortens the patience with clients that do not read. It is
// called before there are any.
func (s *Server) SetWriteTimeout(d time.Duration) { s.core.writeTimeout = d }

// SetBodyTimeout shortens the patience with bodies that do not come.
func (s *Server) SetBodyTimeout(d time.Duration) { s.core.bodyTimeout = d }

// Patterns are those of every HTTP path that is mounted.
func (s *Server) Patterns() []string { return s.web.mux.mounted }

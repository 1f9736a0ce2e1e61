// Package listener opens the addresses of servers: with a bound on the connections
// at a time, and with TLS whose files are read again when they change. It serves
// nothing itself.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
)

// Options say how an address is opened.
type Options struct {
	// Addr is host:port; port 0 takes a free one. Required.
	Addr string
	// MaxConnections is how many connections are open at a time; 0 is no bound.
	// More wait in the system's queue until one has closed.
	MaxConnections int
	// TLS are the files for TLS; none: connections are plain.
	TLS Files
	// Protocols are what clients may choose from in the TLS handshake (ALPN), such
	// as h2.
	Protocols []string
	// Logger is told when files were read, or could not be. Required with TLS.
	Logger *slog.Logger
}

// Open opens the address. The listener is closed once; that ends an Accept.
func Open(ctx context.Context, o Options) (net.Listener, error) {
	var secure *tls.Config
	if !o.TLS.None() {
		var err error
		if secure, err = Secure(o.TLS, o.Logger, o.Protocols...); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	if o.MaxConnections > 0 {
		l = &limited{Listener: l, places: make(chan struct{}, o.MaxConnections), closed: make(chan struct{})}
	}
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	return l, nil
}

var errNoAuthority = errors.New("the file contains no PEM certificate")

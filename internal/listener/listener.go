// Package listener opens server addresses. It can limit open connections and use TLS files, which
// it reloads when they change.
package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
)

// Options configure Open.
type Options struct {
	// Addr has the form host:port. Port 0 selects a free port. Required.
	Addr string
	// MaxConnections limits open connections. 0 means no limit. Excess connections wait in the
	// system's queue until an open one closes.
	MaxConnections int
	// TLS names the TLS files. If it is empty, connections are not encrypted.
	TLS Files
	// Protocols are the ALPN protocols offered to clients, such as h2.
	Protocols []string
	// Logger receives a message when the TLS files are read or cannot be used. Required with TLS.
	Logger *slog.Logger
}

// Open listens on o.Addr.
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

package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// TransportOptions configures the connections to upstreams. The zero value is ready to use.
type TransportOptions struct {
	// MaxIdleConnsPerHost limits the idle connections kept per upstream. 100,000 tasks polled every
	// 10 s need a few hundred. Default 256.
	MaxIdleConnsPerHost int
	// DisableKeepAlives opens a new connection for each call. Default false.
	DisableKeepAlives bool
	// IdleTimeout is how long an idle connection is kept. If a server closes a connection just as a
	// POST is sent on it, the outcome may be unknown. The default is therefore below the 5 s after
	// which common servers close idle connections. Default 4 s.
	IdleTimeout time.Duration
	// TLS is the TLS configuration. Default nil, which uses the system's root certificates.
	TLS *tls.Config
	// DisableHTTP2 restricts calls to HTTP/1.1. Default false.
	DisableHTTP2 bool

	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// WithDefaults returns a copy with the defaults filled in.
func (o TransportOptions) WithDefaults() TransportOptions {
	o.MaxIdleConnsPerHost = cmp.Or(o.MaxIdleConnsPerHost, 256)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 4*time.Second)
	if o.dial == nil {
		o.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: tcpKeepAlive}).DialContext
	}
	return o
}

// Limits that no deployment needs to change.
const (
	maxResponseHeaderBytes = 256 << 10
	readBuffer             = 16 << 10
	dialTimeout            = 10 * time.Second
	tlsHandshakeTimeout    = 10 * time.Second
	tcpKeepAlive           = 30 * time.Second
	http2PingAfter         = 15 * time.Second
	http2PingTimeout       = 15 * time.Second
)

// Transport makes calls to upstreams. Unlike an http.Client, it never follows a redirect, so no key
// reaches another host. It is safe for concurrent use.
type Transport struct {
	// shared reuses connections.
	shared *http.Transport
	// fresh opens a new connection for each HTTP/1.1 request. HTTP/2 requests share a connection
	// unless keep-alives are disabled, because an HTTP/2 upstream reports which requests it did not
	// process. It makes creates, and chats that are sent again.
	fresh *http.Transport
}

// NewTransport returns a transport without a timeout, because callers bound each call by its
// context. It does not request or decompress gzip; Endpoint.Do decodes gzip that servers send
// anyway.
func NewTransport(opts TransportOptions) *Transport {
	opts = opts.WithDefaults()
	t := &Transport{shared: newTransport(opts), fresh: newTransport(opts)}
	t.fresh.ReadBufferSize = 0       // the default of 4 KiB, because creates have short answers
	t.fresh.MaxIdleConnsPerHost = -1 // keeps no HTTP/1.1 connections; HTTP/2 connections do not count as idle
	return t
}

func newTransport(opts TransportOptions) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!opts.DisableHTTP2)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            gated(opts.dial),
		TLSClientConfig:        opts.TLS,
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		MaxIdleConnsPerHost:    opts.MaxIdleConnsPerHost,
		DisableKeepAlives:      opts.DisableKeepAlives,
		IdleConnTimeout:        opts.IdleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		DisableCompression:     true,
		Protocols:              protocols,
		// Streams may arrive faster than they are read, and each refill of the buffer costs a
		// syscall.
		ReadBufferSize: readBuffer,
		// Many polls share one HTTP/2 connection, so a dead connection must be detected much faster
		// than TCP would detect it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: http2PingAfter, PingTimeout: http2PingTimeout},
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(freshConn{}) != nil {
		return t.fresh.RoundTrip(req)
	}
	return t.shared.RoundTrip(req)
}

// CloseIdleConnections closes the connections that no call uses.
func (t *Transport) CloseIdleConnections() {
	t.shared.CloseIdleConnections()
	t.fresh.CloseIdleConnections()
}

// freshConn is the context key for requests that must not reuse an HTTP/1.1 connection.
type freshConn struct{}

func withFreshConn(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshConn{}, true)
}

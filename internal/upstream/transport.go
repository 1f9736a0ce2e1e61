package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// TransportOptions tunes the connections to upstreams. The zero value is ready
// to use.
type TransportOptions struct {
	// MaxIdleConnsPerHost is how many connections to one upstream are kept for
	// reuse. 100,000 tasks that are each polled every 10 s need a few hundred.
	// Default 256.
	MaxIdleConnsPerHost int
	// DisableKeepAlives opens a connection for each call. Default false.
	DisableKeepAlives bool
	// IdleTimeout is how long an unused connection is kept. A POST on a
	// connection that the server closes at the same moment may have an unknown
	// outcome, so this stays below the 5 s after which common servers close.
	// Default 4 s.
	IdleTimeout time.Duration
	// TLS is the TLS configuration. Default nil: the system's roots.
	TLS *tls.Config
	// DisableHTTP2 keeps to HTTP/1.1. Default false.
	DisableHTTP2 bool

	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// WithDefaults gives a copy with every default filled in.
func (o TransportOptions) WithDefaults() TransportOptions {
	o.MaxIdleConnsPerHost = cmp.Or(o.MaxIdleConnsPerHost, 256)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 4*time.Second)
	if o.dial == nil {
		o.dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: tcpKeepAlive}).DialContext
	}
	return o
}

// Limits that no deployment has a reason to change.
const (
	maxResponseHeaderBytes = 256 << 10
	readBuffer             = 16 << 10
	dialTimeout            = 10 * time.Second
	tlsHandshakeTimeout    = 10 * time.Second
	tcpKeepAlive           = 30 * time.Second
	http2PingAfter         = 15 * time.Second
	http2PingTimeout       = 15 * time.Second
)

// NewHTTPClient returns the client that every upstream call goes through. It has
// no timeout, because callers bound each call by its context. It never follows a
// redirect, so that no key travels to another host and no create is repeated, and
// it passes bodies verbatim (Do decodes gzip, without asking for it).
func NewHTTPClient(opts TransportOptions) *http.Client {
	opts = opts.WithDefaults()
	shared, fresh := newTransport(opts), newTransport(opts)
	fresh.MaxIdleConnsPerHost = -1 // keeps no connection of HTTP/1.1; those of HTTP/2 are not idle connections
	return &http.Client{
		Transport:     &transport{shared: shared, fresh: fresh},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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
		// Streams come faster than they are read, a syscall for each buffer.
		ReadBufferSize: readBuffer,
		// Many polls share one HTTP/2 connection; a dead one must be noticed
		// long before TCP gives up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: http2PingAfter, PingTimeout: http2PingTimeout},
	}
}

// transport chooses the connections of a request.
type transport struct {
	// shared reuses connections.
	shared *http.Transport
	// fresh opens a connection for each request over HTTP/1.1. Requests over HTTP/2
	// share one, unless no connection is kept: there the upstream says which requests it
	// did not process.
	fresh *http.Transport
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Context().Value(freshConn{}) != nil {
		return t.fresh.RoundTrip(req)
	}
	return t.shared.RoundTrip(req)
}

// CloseIdleConnections is called by that of http.Client.
func (t *transport) CloseIdleConnections() {
	t.shared.CloseIdleConnections()
	t.fresh.CloseIdleConnections()
}

// freshConn is the key of a context whose requests reuse no connection of HTTP/1.1.
type freshConn struct{}

func withFreshConn(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshConn{}, true)
}

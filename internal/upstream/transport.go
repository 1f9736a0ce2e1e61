package upstream

import (
	"cmp"
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
	// MaxConnsPerHost bounds all connections to one upstream; calls beyond it
	// wait within their context. Default 0: no bound.
	MaxConnsPerHost int
	// DialTimeout bounds the TCP connect. Default 10 s.
	DialTimeout time.Duration
	// TLSHandshakeTimeout bounds the TLS handshake. Default 10 s.
	TLSHandshakeTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. A POST on a
	// connection that the server closes at the same moment has an unknown
	// outcome, so this stays below the 5 s after which common servers close.
	// Default 4 s.
	IdleTimeout time.Duration
	// TLS is the TLS configuration. Default nil: the system's roots.
	TLS *tls.Config
	// DisableHTTP2 keeps to HTTP/1.1. Default false.
	DisableHTTP2 bool
}

// WithDefaults gives a copy with every default filled in.
func (o TransportOptions) WithDefaults() TransportOptions {
	o.MaxIdleConnsPerHost = cmp.Or(o.MaxIdleConnsPerHost, 256)
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.TLSHandshakeTimeout = cmp.Or(o.TLSHandshakeTimeout, 10*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 4*time.Second)
	return o
}

// Limits that no deployment has a reason to change.
const (
	maxResponseHeaderBytes = 256 << 10
	tcpKeepAlive           = 30 * time.Second
	http2PingAfter         = 15 * time.Second
	http2PingTimeout       = 15 * time.Second
)

// NewHTTPClient gives the client that every upstream call goes through. It has
// no timeout of its own, because callers bound each call by its context. It
// never follows a redirect, so that no key travels to another host and no
// create is repeated, and it passes bodies verbatim (no automatic gzip).
func NewHTTPClient(opts TransportOptions) *http.Client {
	opts = opts.WithDefaults()
	dialer := &net.Dialer{Timeout: opts.DialTimeout, KeepAlive: tcpKeepAlive}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!opts.DisableHTTP2)
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            gated(dialer.DialContext),
			TLSClientConfig:        opts.TLS,
			TLSHandshakeTimeout:    opts.TLSHandshakeTimeout,
			MaxIdleConnsPerHost:    opts.MaxIdleConnsPerHost,
			MaxConnsPerHost:        opts.MaxConnsPerHost,
			IdleConnTimeout:        opts.IdleTimeout,
			MaxResponseHeaderBytes: maxResponseHeaderBytes,
			DisableCompression:     true,
			Protocols:              protocols,
			// Many polls share one HTTP/2 connection; a dead one must be noticed
			// long before TCP gives up.
			HTTP2: &http.HTTP2Config{SendPingTimeout: http2PingAfter, PingTimeout: http2PingTimeout},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

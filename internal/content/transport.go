package content

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Limits for connections to hosts that upstreams name.
const (
	dialTimeout         = 10 * time.Second
	tlsHandshakeTimeout = 10 * time.Second
	idleConnTimeout     = 30 * time.Second
	maxHeaderBytes      = 64 << 10
)

// toPublic returns a transport that dials public addresses only. It uses no proxy, because a proxy
// would dial instead of genbus, and guard would never see the address.
func toPublic(roots *tls.Config) *http.Transport {
	return transport(roots, &net.Dialer{Timeout: dialTimeout, ControlContext: guard})
}

// toAnywhere returns a transport that dials any address, through the environment's proxies.
func toAnywhere(roots *tls.Config) *http.Transport {
	t := transport(roots, &net.Dialer{Timeout: dialTimeout})
	t.Proxy = http.ProxyFromEnvironment
	return t
}

// transport returns a transport that speaks only HTTP/1.1. With HTTP/2, up to 4 MiB of an unread
// body would be buffered, and large files would share one connection.
func transport(roots *tls.Config, d *net.Dialer) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            d.DialContext,
		TLSClientConfig:        roots,
		TLSHandshakeTimeout:    tlsHandshakeTimeout,
		IdleConnTimeout:        idleConnTimeout,
		MaxIdleConns:           64,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              protocols,
	}
}

package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/genbus/genbus/internal/errcode"
)

// advised adds advice to a connection error, such as the flag that fixes it. If only a different
// command line can help, the error becomes a usage error, because a retry would fail too.
func (c *connection) advised(ctx context.Context, err error) error {
	var e callError
	switch {
	case !errors.As(err, &e):
		return err
	case e.code == string(errcode.InvalidAPIKey):
		return fmt.Errorf("%w\nset the key in GENBUS_API_KEY (operator commands: GENBUS_OPERATOR_KEY), or use --key-file", err)
	case e.code != "" || e.s.Code() != codes.Unavailable:
		return err
	}
	speaksTLS, absent := probe(ctx, c.address())
	switch {
	case absent != nil:
		return exitError{ExitUnavailable, fmt.Errorf("cannot reach genbus at %s (--server): %w", c.address(), absent)}
	case strings.Contains(e.s.Message(), "looked like an HTTP/1.1 header"),
		!speaksTLS && strings.Contains(e.s.Message(), "error reading server preface: http2: "): // the server sent something other than an HTTP/2 frame
		return WrongUse("%s does not speak gRPC (--server): it may be an HTTP or NATS address; the default gRPC address is %s", c.address(), DefaultServer)
	case c.secure():
		return adviceFor(err, e.s.Message())
	case speaksTLS:
		return WrongUse("%w\nthe server speaks TLS: use --tls, and --ca FILE if the system does not trust its authority", err)
	}
	return err
}

// adviceFor adds advice to the error of a TLS connection. It recognizes the reason by the message,
// because gRPC reports it nowhere else.
func adviceFor(err error, message string) error {
	for _, row := range []struct{ says, do string }{
		{"first record does not look like a TLS handshake", "the server does not speak TLS: omit --tls, --ca, --cert and --server-name, and unset GENBUS_CA (to another machine, add --plaintext if the network is safe)"},
		{"unknown authority", "the server's certificate has an unknown authority: set its file with --ca"},
		{"x509: certificate is ", "the server's certificate has another name: set it with --server-name"},
		{"doesn't contain any IP SANs", "the server's certificate has a name but no address: set the name with --server-name"},
		{"certificate has expired or is not yet valid", "the server's certificate is expired or not yet valid: renew it, or correct this machine's clock"},
		{"tls: certificate required", "the server requires a client certificate: use --cert and --key"},
		{"tls: unknown certificate authority", "the server does not trust the client certificate: use a --cert from an authority that it trusts"},
	} {
		if strings.Contains(message, row.says) {
			return WrongUse("%w\n%s", err, row.do)
		}
	}
	for _, cut := range []string{
		// With TLS 1.3, the client completes its handshake before the server checks the client
		// certificate. Therefore the first write may fail on a closed connection before the client
		// reads the reason. A stopping server looks the same, so a retry may help.
		"broken pipe", "connection reset by peer",
	} {
		if strings.Contains(message, cut) {
			return fmt.Errorf("%w\nthe server closed the connection: if it requires a client certificate, use --cert and --key", err)
		}
	}
	return err
}

const probeTime = 3 * time.Second

// probe performs a TLS handshake and sends nothing else. It reports whether the server speaks TLS,
// even if the certificate is not trusted. If nothing answers at the address, absent is the reason.
// probe skips servers that gRPC reaches through a proxy or another scheme.
func probe(ctx context.Context, server string) (speaksTLS bool, absent error) {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return false, nil
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: server}})
	if err != nil || proxy != nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return false, plain(err)
	}
	defer conn.Close() // nothing was sent
	err = tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ServerName: host}).HandshakeContext(ctx)
	var distrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	return err == nil || errors.As(err, &distrusted) || errors.As(err, &alert), nil
}

// plain removes the network and the address from a net error, because the user already knows them.
func plain(err error) error {
	var errno syscall.Errno
	var dns *net.DNSError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &dns):
		return fmt.Errorf("lookup %s: %s", dns.Name, dns.Err)
	case os.IsTimeout(err):
		return os.ErrDeadlineExceeded
	default:
		return err
	}
}

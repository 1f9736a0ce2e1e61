package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// secure reports whether the command calls by TLS.
func (c *connection) secure() bool {
	return c.TLS || c.CA != "" || c.Cert != "" || c.ServerName != ""
}

// advised adds to an error of the connection which flag would mend it, where one
// would. What only another command line mends is a wrong use: to try again is no help.
func (c *connection) advised(ctx context.Context, err error) error {
	var e callError
	if !errors.As(err, &e) || e.code != "" || e.s.Code() != codes.Unavailable {
		return err
	}
	switch {
	case c.secure():
		return adviceFor(err, e.s.Message())
	case speaksTLS(ctx, c.Server):
		return wrongUse("%w\nthe server speaks TLS: use --tls, with --ca FILE where its certificate is not of an authority that the system trusts", err)
	}
	return err
}

// adviceFor reads why a connection by TLS was not made. gRPC tells it in words only.
func adviceFor(err error, message string) error {
	for _, row := range []struct{ says, do string }{
		{"first record does not look like a TLS handshake", "the server speaks no TLS: leave --tls, --ca, --cert and --server-name out (to another machine, with --plaintext if the network is safe)"},
		{"unknown authority", "the server's certificate is of an unknown authority: name the file of its authority with --ca"},
		{"x509: certificate is ", "the server's certificate has another name: give it with --server-name"},
		{"doesn't contain any IP SANs", "the server's certificate has a name and no address: give the name with --server-name"},
		{"certificate has expired or is not yet valid", "the server's certificate is not valid now: renew it, or set the clock of this machine"},
		{"tls: certificate required", "the server wants a client certificate: use --cert and --key"},
		{"tls: unknown certificate authority", "the server does not trust the client certificate: use --cert and --key of an authority that it trusts"},
	} {
		if strings.Contains(message, row.says) {
			return wrongUse("%w\n%s", err, row.do)
		}
	}
	for _, cut := range []string{
		// By TLS 1.3 the client is done before the server has asked for a certificate. What it
		// writes then meets a closed connection, now and then before it has read why.
		// A server that goes down looks the same, so this may get better.
		"broken pipe", "connection reset by peer",
	} {
		if strings.Contains(message, cut) {
			return fmt.Errorf("%w\nthe server closed the connection: where it wants a client certificate, use --cert and --key", err)
		}
	}
	return err
}

// probeTime bounds the look at a server that could not be called.
const probeTime = 3 * time.Second

// speaksTLS shakes hands with a server, and sends nothing. A certificate that is not
// trusted is one all the same.
func speaksTLS(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}}
	conn, err := d.DialContext(ctx, "tcp", server)
	if err == nil {
		_ = conn.Close() // nothing was sent
		return true
	}
	var distrusted *tls.CertificateVerificationError
	var alert tls.AlertError
	return errors.As(err, &distrusted) || errors.As(err, &alert)
}

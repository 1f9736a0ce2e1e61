// Package command implements the commands that call a running genbus: submit, tasks, models and
// events for users, and operator for operators. Package cli parses the command line with kong.
package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// connection holds the flags for calling genbus over gRPC.
type connection struct {
	Server     string `help:"gRPC address, host or host:port; the default port is 9090. Default: GENBUS_SERVER, or 127.0.0.1:9090." placeholder:"ADDRESS"`
	KeyFile    string `help:"File with the key. Default: GENBUS_API_KEY (operator commands: GENBUS_OPERATOR_KEY), or the file named by GENBUS_API_KEY_FILE." type:"path"`
	TLS        bool   `help:"Use TLS; implied by --ca, GENBUS_CA, --cert and --server-name." name:"tls"`
	CA         string `help:"PEM file of certificates to trust instead of the system's. Default: GENBUS_CA." name:"ca" type:"path"`
	Cert       string `help:"PEM file of the client certificate; needs --key." type:"path"`
	Key        string `help:"PEM file of the private key of --cert." type:"path"`
	ServerName string `help:"Name in the server's certificate if it differs from the host."`
	Plaintext  bool   `help:"Send the key without TLS to another machine; ignores GENBUS_CA."`
}

// DefaultServer is the gRPC address of a genbus on this machine.
const DefaultServer = "127.0.0.1:" + defaultPort

const defaultPort = "9090"

// Variables of connection flags. They are read here instead of by kong, which would not tell them
// from flags.
const (
	EnvServer = "GENBUS_SERVER"
	envCA     = "GENBUS_CA"
)

// address returns the server's address. A host without a port gets defaultPort, where gRPC would use
// 443. Paths and URLs of other gRPC resolvers stay as they are.
func (c *connection) address() string {
	server := cmp.Or(c.Server, os.Getenv(EnvServer), DefaultServer)
	if _, _, err := net.SplitHostPort(server); err == nil || strings.Contains(server, "/") {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), defaultPort)
}

// ca returns the file of certificates to trust, or "" for the system's. --plaintext overrides
// GENBUS_CA, which implies TLS.
func (c *connection) ca() string {
	if c.Plaintext {
		return c.CA
	}
	return cmp.Or(c.CA, os.Getenv(envCA))
}

// given reports whether a flag on the command line selects gRPC.
func (c *connection) given() bool {
	return c.Server != "" || c.KeyFile != "" || c.TLS || c.CA != "" || c.Cert != "" || c.ServerName != ""
}

// secure reports whether the command uses TLS.
func (c *connection) secure() bool {
	return c.TLS || c.ca() != "" || c.Cert != "" || c.ServerName != ""
}

// maxAnswer is the maximum size of an answer in bytes. The largest answers are dead letters with
// their requests.
const maxAnswer = 1 << 30

// dial creates a client connection. If key is set, the connection will carry a key, and dial
// refuses a connection that would expose it.
func (c *connection) dial(key bool) (*grpc.ClientConn, error) {
	if address := c.address(); strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return nil, WrongUse("--server or GENBUS_SERVER must be host:port without http://; use --tls for TLS")
	}
	creds, err := c.credentials(key)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(c.address(), grpc.WithTransportCredentials(creds), grpc.WithUnaryInterceptor(noticeInterceptor), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, WrongUse("--server: %w", err)
	}
	return conn, nil
}

// with calls f with a connection and a context that sends the key. It adds a hint to connection
// errors.
func (c *connection) with(ctx context.Context, key string, f func(context.Context, *grpc.ClientConn) error) error {
	conn, err := c.dial(key != "")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // every answer was read
	return c.advised(ctx, f(withKey(ctx, key), conn))
}

// withKey returns a context whose calls send the key, if there is one.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// key returns the key from --key-file, the variable env, or the file named in env_FILE, in this
// order. It returns an empty key if none of these is set. Errors never contain the key.
func (c *connection) key(env string) (string, error) {
	file := cmp.Or(c.KeyFile, os.Getenv(env+"_FILE"))
	if key := os.Getenv(env); c.KeyFile == "" && key != "" {
		return key, nil
	}
	if file == "" {
		return "", nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", WrongUse("the key: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", WrongUse("the key: %s must hold one line, the key", file)
	}
	return key, nil
}

func (c *connection) credentials(key bool) (credentials.TransportCredentials, error) {
	if !c.secure() {
		if key && !c.Plaintext && !IsLoopback(c.address()) {
			return nil, WrongUse("refusing to send the key unencrypted to %s: use --tls, or --plaintext if the network is safe", c.address())
		}
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if ca := c.ca(); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, WrongUse("--ca or GENBUS_CA: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, WrongUse("--ca or GENBUS_CA: %s contains no PEM certificate", ca)
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, WrongUse("--cert and --key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(cfg), nil
}

// IsLoopback reports whether an address is a loopback address.
func IsLoopback(server string) bool {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

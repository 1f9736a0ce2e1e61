package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// operatorCommand is the operator's work on a running genbus, by gRPC.
type operatorCommand struct {
	Server     string        `help:"Address of gRPC, host:port." default:"127.0.0.1:9090"`
	KeyFile    string        `help:"File with the operator's key; without it GENBUS_OPERATOR_KEY is used." type:"path"`
	TLS        bool          `help:"Call by TLS; on with --ca, --cert or --server-name." name:"tls"`
	CA         string        `help:"Certificates to trust, PEM; without it the system's." name:"ca" type:"path"`
	Cert       string        `help:"Client certificate, PEM; needs --key." type:"path"`
	Key        string        `help:"Private key of --cert, PEM." type:"path"`
	ServerName string        `help:"Name in the server's certificate, where it is not the host."`
	Plaintext  bool          `help:"Send the key without TLS beyond this machine."`
	JSON       bool          `help:"Print JSON." name:"json"`
	Timeout    time.Duration `help:"Limit of one call." default:"1m"`

	Dead   deadCommand   `cmd:"" help:"Dead letters: what could not be processed."`
	Attach attachCommand `cmd:"" help:"Make a new job of a video that the upstream has; nothing is submitted."`
	Cancel cancelCommand `cmd:"" help:"End a job that has not ended, as its tenant could."`
	Erase  eraseCommand  `cmd:"" help:"Erase a job that has ended: events, chunks, bodies."`
	Routes routesCommand `cmd:"" help:"Show how each route is doing."`
	Pause  pauseCommand  `cmd:"" help:"Stop the submission of a route's waiting jobs, on all replicas."`
	Resume resumeCommand `cmd:"" help:"Undo pause."`
}

// operatorCall is one use of the operator's methods.
type operatorCall struct {
	genbusv1.OperatorServiceClient
	printer
}

// call connects, has f do its work within the time limit, and leaves.
func (c *operatorCommand) call(ctx context.Context, out io.Writer, f func(context.Context, operatorCall) error) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	creds, err := c.credentials()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(c.Server, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return wrongUse("--server: %w", err)
	}
	defer conn.Close() //nolint:errcheck // every answer was read
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key), c.Timeout)
	defer cancel()
	return c.advised(ctx, f(ctx, operatorCall{OperatorServiceClient: genbusv1.NewOperatorServiceClient(conn), printer: printer{out: out, json: c.JSON}}))
}

// maxAnswer is the longest answer that is read, in bytes: a letter with its request.
const maxAnswer = 1 << 30

// key reads the operator's key, which is never printed.
func (c *operatorCommand) key() (string, error) {
	file := cmp.Or(c.KeyFile, os.Getenv("GENBUS_OPERATOR_KEY_FILE"))
	if key := os.Getenv("GENBUS_OPERATOR_KEY"); c.KeyFile == "" && key != "" {
		return key, nil
	}
	if file == "" {
		return "", wrongUse("no key: set GENBUS_OPERATOR_KEY, or name a file with --key-file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", wrongUse("the operator's key: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", wrongUse("the operator's key: %s must hold one line, the key", file)
	}
	return key, nil
}

func (c *operatorCommand) credentials() (credentials.TransportCredentials, error) {
	if !c.secure() {
		if !c.Plaintext && !loopback(c.Server) {
			return nil, wrongUse("%s is another machine, and the key would go there in clear: use --tls, or --plaintext if the network is safe", c.Server)
		}
		return insecure.NewCredentials(), nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, wrongUse("--ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrongUse("--ca: %s holds no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, wrongUse("--cert and --key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(cfg), nil
}

// loopback reports whether an address is on this machine.
func loopback(server string) bool {
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func wrongUse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUsage reports whether the command line was wrong.
func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}

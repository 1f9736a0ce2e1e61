package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// healthCommand checks a running genbus. It is for supervisors without a shell or curl, such as in
// the container image. It takes the address and the TLS settings from the configuration, so it
// works wherever genbus can start.
type healthCommand struct {
	Config  string        `help:"Configuration file; overrides GENBUS_CONFIG." type:"path"`
	URL     string        `help:"HTTP address, such as http://127.0.0.1:8080, instead of reading the configuration." placeholder:"URL"`
	Live    bool          `help:"Check /healthz (is it alive) instead of /readyz (should it receive calls)." xor:"ask"`
	Jobs    bool          `help:"Check /readyz/jobs (does it accept jobs), which fails while JetStream is unreachable." xor:"ask"`
	CA      string        `help:"With --url: PEM file of certificates to trust instead of the system's." name:"ca" type:"path"`
	Cert    string        `help:"PEM file of the client certificate, if http.tls.client_ca_file requires one; needs --key." type:"path"`
	Key     string        `help:"PEM file of the private key of --cert." type:"path"`
	Timeout time.Duration `help:"Time limit of the check." default:"5s"`
}

// Run prints the status and returns an error if genbus is not ready or, with --live, not alive. The
// default check does not depend on the broker, because a supervisor must neither restart nor drain
// a replica while JetStream is unavailable.
func (c healthCommand) Run(ctx context.Context, out io.Writer) error {
	if err := command.CheckTimeout(c.Timeout); err != nil {
		return err
	}
	base, trust, unread, err := c.target()
	if err != nil {
		return err
	}
	if trust.Certificates, err = c.certificate(); err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	status, err := ask(ctx, transport, base.JoinPath(c.path()).String())
	if err != nil {
		return errors.Join(err, unread)
	}
	_, err = fmt.Fprintln(out, status)
	return err
}

func (c healthCommand) path() string {
	switch {
	case c.Live:
		return "/healthz"
	case c.Jobs:
		return "/readyz/jobs"
	default:
		return "/readyz"
	}
}

// target returns the address and its TLS configuration. unread is the error of an unreadable
// configuration, which need not be fatal.
func (c healthCommand) target() (base *url.URL, trust *tls.Config, unread, err error) {
	if c.URL != "" {
		base, trust, err = c.named()
		return base, trust, nil, err
	}
	listens, unread := config.ListensAt(config.ProcessSource(c.Config))
	if unread != nil {
		unread = wrongConfig(unread)
	}
	base, trust, err = configured(listens)
	return base, trust, unread, err
}

// named returns the target given by --url and --ca.
func (c healthCommand) named() (*url.URL, *tls.Config, error) {
	base, err := url.Parse(c.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, nil, command.WrongUse("--url: %q is not an address such as http://127.0.0.1:8080", c.URL)
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		if trust.RootCAs, err = authorities(c.CA); err != nil {
			return nil, nil, err
		}
	}
	return base, trust, nil
}

// configured returns the configured address in a form that this machine can reach.
func configured(h config.HTTP) (*url.URL, *tls.Config, error) {
	host, port, err := net.SplitHostPort(h.Addr)
	if err != nil || port == "0" {
		return nil, nil, command.WrongUse("http.addr is %q, so the port is chosen at startup; set it with --url", h.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	base := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if !h.TLS.Enabled() {
		return base, trust, nil
	}
	base.Scheme = "https"
	// The address need not match the names in the certificate. Instead, the server must present the
	// certificate in the configured file.
	trust.InsecureSkipVerify = true // VerifyConnection compares the whole certificate
	trust.VerifyConnection = func(s tls.ConnectionState) error { return isInFile(s, h.TLS.CertFile) }
	return base, trust, nil
}

// isInFile returns an error unless the server presented the first certificate of the file.
func isInFile(s tls.ConnectionState, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("http.tls.cert_file: %w", err)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if bytes.Equal(block.Bytes, s.PeerCertificates[0].Raw) {
			return nil
		}
		break
	}
	return fmt.Errorf("the server's certificate differs from http.tls.cert_file, %s: another process answers, or the file has just changed", file)
}

func authorities(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, command.WrongUse("--ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, command.WrongUse("--ca: %s contains no PEM certificate", file)
	}
	return pool, nil
}

func (c healthCommand) certificate() ([]tls.Certificate, error) {
	if c.Cert == "" && c.Key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, command.WrongUse("--cert and --key: %w", err)
	}
	return []tls.Certificate{pair}, nil
}

// maxHealth limits the size of an answer, in bytes.
const maxHealth = 1 << 20

// ask returns the status, or an error with the reasons.
func ask(ctx context.Context, transport http.RoundTripper, address string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("%s did not answer in time (--timeout): %w", address, err)
		}
		return "", fmt.Errorf("%s did not answer: %w", address, err)
	}
	defer res.Body.Close()
	var answer struct {
		Status  string             `json:"status"`
		Reasons []telemetry.Reason `json:"reasons"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxHealth)).Decode(&answer); err != nil || answer.Status == "" {
		return "", fmt.Errorf("%s answered %s, which is not a genbus answer", address, res.Status)
	}
	if res.StatusCode != http.StatusOK {
		why := make([]string, 0, len(answer.Reasons))
		for _, r := range answer.Reasons {
			why = append(why, r.Check+": "+r.Reason)
		}
		return "", fmt.Errorf("%s: %s", answer.Status, strings.Join(why, "; "))
	}
	return answer.Status, nil
}

package natsacl_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // path of the certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey(t)
	a.ca = a.write(t, "ca.pem", "CERTIFICATE", a.sign(t, a.cert, a.key))
	return a
}

func (a *authority) newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(t *testing.T, cert *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(a.dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// issue creates a certificate for a local server or client, and its key. It returns their paths.
func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	k := a.newKey(t)
	der := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, k)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+".pem", "CERTIFICATE", der), a.write(t, name+".key", "PRIVATE KEY", private)
}

// TestTLS proves that nats.tls and tls.conf make the service, a tenant and the server accept only
// certificates of their authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	ours, stranger := newAuthority(t), newAuthority(t)
	n := start(t, withTLS(t, ours))
	cert, key := ours.issue(t, "service")
	r := run(t, fmt.Sprintf("ca_file: %q, cert_file: %q, key_file: %q", ours.ca, cert, key), n)

	cert, key = ours.issue(t, "tenant")
	nc := r.connect(t, local+"-publisher", nats.RootCAs(ours.ca), nats.ClientCert(cert, key))
	if !nc.TLSRequired() {
		t.Error("TLS is not required")
	}
	r.call(nc, "video", `{"model":"sandbox-video","prompt":"a cat"}`)

	foreignCert, foreignKey := stranger.issue(t, "stranger")
	for name, opts := range map[string][]nats.Option{
		"no certificate":              {nats.RootCAs(ours.ca)},
		"a stranger's certificate":    {nats.RootCAs(ours.ca), nats.ClientCert(foreignCert, foreignKey)},
		"trust in another authority":  {nats.RootCAs(stranger.ca), nats.ClientCert(cert, key)},
		"no trust in any authority":   {nats.ClientCert(cert, key)},
		"the right one, no password":  {nats.RootCAs(ours.ca), nats.ClientCert(cert, key), nats.UserInfo("", "")},
		"the right one, wrong words":  {nats.RootCAs(ours.ca), nats.ClientCert(cert, key), nats.UserInfo(local+"-publisher", "x")},
		"the password of another one": {nats.RootCAs(ours.ca), nats.ClientCert(cert, key), nats.UserInfo("service", password(local+"-publisher"))},
	} {
		nc, err := nats.Connect(r.ClientURL(), append([]nats.Option{nats.UserInfo(local+"-publisher", password(local+"-publisher"))}, opts...)...)
		if err == nil {
			t.Errorf("%s: connected", name)
			nc.Close()
		}
	}
	r.service.stop(syscall.SIGTERM)
}

// withTLS deploys the configuration with tls.conf enabled.
func withTLS(t *testing.T, a *authority) string {
	t.Helper()
	dir := deploy(t, local)
	cert, key := a.issue(t, "server")
	file := filepath.Join(dir, "tls.conf")
	rewrite(t, file, file, "$NATS_TLS_CERT_FILE", fmt.Sprintf("%q", cert), "$NATS_TLS_KEY_FILE", fmt.Sprintf("%q", key), "$NATS_TLS_CA_FILE", fmt.Sprintf("%q", a.ca))
	file = filepath.Join(dir, "genbus.conf")
	rewrite(t, file, file, `# include "tls.conf"`, `include "tls.conf"`)
	return dir
}

package listener

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are the PEM files of a server's TLS.
type Files struct {
	// Cert is the server's certificate, followed by those that lead to its
	// authority; Key is its key. Both, or neither.
	Cert, Key string
	// ClientCA holds the authorities whose client certificates are taken; every
	// client must show one. Empty: none is asked for.
	ClientCA string
}

// None reports whether there is no TLS.
func (f Files) None() bool { return f.Cert == "" && f.Key == "" }

func (f Files) names() []string {
	if f.ClientCA == "" {
		return []string{f.Cert, f.Key}
	}
	return []string{f.Cert, f.Key, f.ClientCA}
}

// lookEvery is how often the files are looked at, at most: once for all handshakes
// of that time.
const lookEvery = time.Second

// Secure reads the files, and returns a configuration that reads them again when
// they have changed, at a handshake, at most once a second. While what stands in
// them cannot be used, as in the middle of a replacement, it goes on with what it
// has and warns. TLS 1.2 is the least; the rest are Go's defaults.
func Secure(f Files, log *slog.Logger, protocols ...string) (*tls.Config, error) {
	s := &secured{files: f, protocols: protocols, log: log}
	if err := s.read(); err != nil {
		return nil, err
	}
	// Whoever looks at this one, as the NATS server does, sees what is asked for.
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols, ClientAuth: s.config.ClientAuth, ClientCAs: s.config.ClientCAs,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(time.Now()), nil },
	}, nil
}

// secured is what was last read from the files.
type secured struct {
	files     Files
	protocols []string
	log       *slog.Logger

	mu      sync.Mutex
	config  *tls.Config
	states  []fs.FileInfo // of the files as they were read
	looked  time.Time
	trouble string // the last warning: it is not repeated each second
}

func (s *secured) current(now time.Time) *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.looked) < lookEvery {
		return s.config
	}
	s.looked = now
	if s.changed() {
		s.readAgain()
	}
	return s.config
}

func (s *secured) changed() bool {
	for i, name := range s.files.names() {
		info, err := os.Stat(name)
		if err != nil {
			return true // which the reading reports
		}
		if was := s.states[i]; !os.SameFile(info, was) || info.Size() != was.Size() || !info.ModTime().Equal(was.ModTime()) {
			return true
		}
	}
	return false
}

func (s *secured) readAgain() {
	err := s.read()
	switch {
	case err == nil:
		s.trouble = ""
	case err.Error() != s.trouble:
		s.trouble = err.Error()
		s.log.Warn("tls: the changed files cannot be used; what was read before goes on", "error", err)
	}
}

// read takes the states first: what changes while it reads is read again.
func (s *secured) read() error {
	states := make([]fs.FileInfo, 0, len(s.files.names()))
	for _, name := range s.files.names() {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		states = append(states, info)
	}
	certificate, err := tls.LoadX509KeyPair(s.files.Cert, s.files.Key)
	if err != nil {
		return fmt.Errorf("tls: certificate %s with key %s: %w", s.files.Cert, s.files.Key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: s.protocols, Certificates: []tls.Certificate{certificate}}
	if s.files.ClientCA != "" {
		if config.ClientCAs, err = readAuthorities(s.files.ClientCA); err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session shows no certificate: an authority that was taken out
		// would go on being trusted.
		config.SessionTicketsDisabled = true
	}
	s.config, s.states = config, states
	s.log.Info("tls: certificate read", "file", s.files.Cert, "not_after", certificate.Leaf.NotAfter)
	return nil
}

func readAuthorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("tls: authorities %s: %w", name, errNoAuthority)
	}
	return pool, nil
}

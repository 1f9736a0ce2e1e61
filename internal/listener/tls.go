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

// Files names the PEM files of a TLS server.
type Files struct {
	// Cert contains the server's certificate, followed by its intermediates. Key contains its
	// private key. Set both or neither.
	Cert, Key string
	// ClientCA contains the authorities for client certificates. If it is set, every client must
	// present a certificate.
	ClientCA string
}

// None reports whether TLS is disabled.
func (f Files) None() bool { return f.Cert == "" && f.Key == "" }

func (f Files) names() []string {
	if f.ClientCA == "" {
		return []string{f.Cert, f.Key}
	}
	return []string{f.Cert, f.Key, f.ClientCA}
}

// Configuration fields of the files, in the order of Files.names.
const (
	fieldCert     = "cert_file"
	fieldKey      = "key_file"
	fieldClientCA = "client_ca_file"
)

var fields = []string{fieldCert, fieldKey, fieldClientCA}

// FileError reports which file cannot be used, and why.
type FileError struct {
	Field string // cert_file, key_file or client_ca_file
	Err   error
}

func (e *FileError) Error() string { return "tls: " + e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// lookEvery is the minimum interval between checks for changed files, shared by all handshakes.
const lookEvery = time.Second

// Secure reads the files and returns a configuration that reloads them when they change. It checks
// for changes during handshakes, at most once a second. If changed files cannot be used, for
// example because they are being replaced, it keeps the previous ones and logs a warning. The
// minimum version is TLS 1.2. With ClientCA, session tickets are disabled. Other settings have the
// defaults of crypto/tls. Errors are of type *FileError.
func Secure(f Files, log *slog.Logger, protocols ...string) (*tls.Config, error) {
	s := &secured{files: f, protocols: protocols, log: log}
	if err := s.read(); err != nil {
		return nil, err
	}
	// The NATS server, for example, reads the outer configuration to determine whether clients need
	// a certificate.
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols, ClientAuth: s.config.ClientAuth, ClientCAs: s.config.ClientCAs,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current(time.Now()), nil },
	}, nil
}

// secured holds the configuration last read from the files.
type secured struct {
	files     Files
	protocols []string
	log       *slog.Logger

	mu      sync.Mutex
	config  *tls.Config
	states  []fs.FileInfo // of the files when they were read
	looked  time.Time
	trouble string // the last warning, to log it once
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
			return true // read reports it
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
		s.log.Warn("could not load changed TLS files, keeping previous ones", "error", err)
	}
}

// read calls os.Stat before it reads the files, so that the next check detects a change made during
// the read.
func (s *secured) read() error {
	states := make([]fs.FileInfo, 0, len(s.files.names()))
	for i, name := range s.files.names() {
		info, err := os.Stat(name)
		if err != nil {
			return &FileError{Field: fields[i], Err: err}
		}
		states = append(states, info)
	}
	certificate, err := s.files.pair()
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: s.protocols, Certificates: []tls.Certificate{certificate}}
	if s.files.ClientCA != "" {
		if config.ClientCAs, err = readAuthorities(s.files.ClientCA); err != nil {
			return err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session does not present a certificate, so a removed authority would remain
		// trusted.
		config.SessionTicketsDisabled = true
	}
	s.config, s.states = config, states
	s.log.Info("loaded TLS certificate", "file", s.files.Cert, "not_after", certificate.Leaf.NotAfter)
	return nil
}

// pair reads the certificate and its key. If they do not match, the error names the key.
func (f Files) pair() (tls.Certificate, error) {
	certificate, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err == nil {
		return certificate, nil
	}
	field := fieldKey
	if text, unreadable := os.ReadFile(f.Cert); unreadable != nil || !x509.NewCertPool().AppendCertsFromPEM(text) {
		field = fieldCert
	}
	return tls.Certificate{}, &FileError{Field: field, Err: fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)}
}

func readAuthorities(name string) (*x509.CertPool, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &FileError{Field: fieldClientCA, Err: err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, &FileError{Field: fieldClientCA, Err: fmt.Errorf("authorities %s: %w", name, errNoAuthority)}
	}
	return pool, nil
}

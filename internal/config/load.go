package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// Source specifies where to load a configuration from. Processes use ProcessSource. Tests build a
// Source by hand.
type Source struct {
	// Environ is the environment as NAME=value, like os.Environ. Empty values count as unset.
	Environ []string
	// File overrides GENBUS_CONFIG. If both are empty, no file is read.
	File string
	// ReadFile reads the configuration file and the files that it names. Default nil, which reads
	// the file system.
	ReadFile func(path string) ([]byte, error)
}

// ProcessSource returns a Source with the environment and file system of this process. A non-empty
// file overrides GENBUS_CONFIG.
func ProcessSource(file string) Source {
	return Source{Environ: os.Environ(), File: file}
}

// Load reads the file, overrides it with the environment, loads the secrets and checks the result.
// The error joins all problems, one line each. A line gives the origin of the value (file and line,
// or variable), the key, the value and the valid values. The error never contains a secret.
func Load(source Source) (*Config, error) { return load(source, nil) }

// ListensAt returns the HTTP settings with which a process that uses this source listens. It
// ignores problems in the rest of the configuration, which may be newer than the running process.
// If the file cannot be read or parsed, it returns the error, along with settings from the
// environment and the defaults.
func ListensAt(source Source) (HTTP, error) {
	l := newLoader(source)
	var err error
	if l.loadFile(); l.reported[""] {
		err = l.err()
		l.HTTP = Default().HTTP
	}
	l.applyEnv()
	return l.HTTP, err
}

func newLoader(source Source) *loader {
	if source.ReadFile == nil {
		source.ReadFile = readFile
	}
	l := &loader{Config: Default(), read: source.ReadFile, env: parseEnviron(source.Environ), used: map[string]bool{}}
	l.report = newReport(cmp.Or(source.File, l.env[envConfig]))
	return l
}

// load implements Load. If running is not nil, load checks and returns the configuration with which
// the running process would continue.
func load(source Source, running *Config) (*Config, error) {
	l := newLoader(source)
	if l.loadFile(); l.reported[""] {
		return nil, l.err() // nothing else can be checked without the file
	}
	l.applyEnv()
	l.inherit()
	l.loadSecrets()
	l.dropTwice()
	l.checkFiles()
	l.unknownVariables()
	l.resolveTraces()
	if running != nil {
		l.Config = running.taking(l.Config)
	}
	l.prepare(l.report)
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Config, nil
}

type loader struct {
	*Config
	*report
	read func(path string) ([]byte, error)
	env  map[string]string
	used map[string]bool // variables that the configuration names as holding secrets
	// Whether the environment added an entry at the end of api_keys or operator_keys.
	addedKey, addedOperator bool
}

func (l *loader) loadFile() {
	if l.file == "" {
		return
	}
	content, err := l.read(l.file)
	if err != nil {
		l.add("", fmt.Sprintf("cannot read the configuration file: %v; want a YAML file, set with GENBUS_CONFIG or --config", err))
		return
	}
	decodeFile(l.report, content, l.Config)
}

// resolveTraces replaces auto with on if an exporter endpoint is configured, and with off
// otherwise.
func (l *loader) resolveTraces() {
	if l.Telemetry.Traces != "auto" {
		return
	}
	l.Telemetry.Traces = "off"
	if l.env["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" || l.env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != "" {
		l.Telemetry.Traces = "on"
	}
}

// checkFiles reads the TLS and NATS credential files once, to report wrong paths early.
func (l *loader) checkFiles() {
	for _, f := range []struct{ key, path string }{
		{"nats.creds_file", l.NATS.CredsFile},
		{"nats.tls.ca_file", l.NATS.TLS.CAFile},
		{"nats.tls.cert_file", l.NATS.TLS.CertFile},
		{"nats.tls.key_file", l.NATS.TLS.KeyFile},
		{"http.tls.cert_file", l.HTTP.TLS.CertFile},
		{"http.tls.key_file", l.HTTP.TLS.KeyFile},
		{"http.tls.client_ca_file", l.HTTP.TLS.ClientCAFile},
		{"grpc.tls.cert_file", l.GRPC.TLS.CertFile},
		{"grpc.tls.key_file", l.GRPC.TLS.KeyFile},
		{"grpc.tls.client_ca_file", l.GRPC.TLS.ClientCAFile},
	} {
		if f.path == "" {
			continue
		}
		if _, err := l.read(f.path); err != nil {
			l.bad(f.key, f.path, "a readable file: "+reason(err))
		}
	}
}

// splitCredentials moves the user and password from a URL in the variable to their own fields, so
// that nats.url can be shown. It rejects credentials in a URL in the file.
func (l *loader) splitCredentials() {
	if !strings.Contains(l.NATS.URL, "@") {
		return
	}
	const key = "nats.url"
	if l.vars[key] == "" {
		l.NATS.URL = ""
		l.add(key, "holds credentials; want nats.user with nats.password_env or nats.password_file, or nats.creds_file, or the whole URL in "+envNATSURL)
		return
	}
	servers, user := l.NATS.Servers(), (*url.Userinfo)(nil)
	for i, server := range servers {
		u, err := url.Parse(server)
		if err != nil || u.User == nil {
			continue
		}
		if user != nil && user.String() != u.User.String() {
			l.add(key, "holds two different users; want one for all servers")
		}
		user, u.User = u.User, nil
		servers[i] = u.String()
	}
	l.NATS.URL = strings.Join(servers, ",")
	if user == nil || strings.Contains(l.NATS.URL, "@") {
		l.NATS.URL = ""
		l.add(key, "cannot be parsed; want nats://user:password@host:4222 with special characters percent-encoded")
		return
	}
	l.takeUser(user)
}

func (l *loader) takeUser(user *url.Userinfo) {
	password, _ := user.Password()
	if password == "" || user.Username() == "" {
		l.add("nats.url", "holds a user without a password or a token; want nats://user:password@host:4222, or nats.creds_file")
		return
	}
	if l.NATS.User != "" {
		l.add("nats.user", "is set and nats.url holds a user too; want one of them")
		return
	}
	l.NATS.User, l.NATS.Password = user.Username(), NewSecret(password)
}

// readFile reads at most one byte more than the maximum size, so that a device or a wrong path
// cannot exhaust memory.
func readFile(path string) (content []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// reason returns the text of an os error without the path.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

package broker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Embedded configures the JetStream server that runs inside the process.
type Embedded struct {
	// Listen is the TCP address for other processes. If empty, the server does not listen.
	Listen string
	// DataDir holds the streams and a lock file. Required.
	DataDir string
	// User and Password authenticate TCP clients. If empty, every client may connect.
	User, Password string
	// TLS applies to TCP clients; nil disables it. genbus itself connects in-process.
	TLS *tls.Config
	// NoSync skips the fsync before each ack. Default: false.
	NoSync bool
	// MaxStore and MaxMemory limit the total size of the streams on disk and in memory, in bytes.
	// Defaults: 16 GiB and 512 MiB.
	MaxStore, MaxMemory int64
}

// maxPayload is the embedded server's message size limit, in bytes. It is the maximum that NATS
// recommends.
const maxPayload = 8 << 20

type embedded struct {
	running atomic.Pointer[server.Server]
	options Embedded
	lock    *flock.Flock
	log     *slog.Logger
	faults  storeFaults

	free atomic.Int64 // free disk space, in bytes

	restarted atomic.Int64 // time of the last restart, in Unix nanoseconds; 0 if none
	checking  atomic.Int64 // start of a running writeError, in Unix nanoseconds; 0 if none

	checkedAt atomic.Int64 // time of the last check by hasBatchCapacity, in Unix nanoseconds
	full      atomic.Bool  // result of that check
}

// startEmbedded locks the data directory before it starts the server, because two servers would
// otherwise share the directory.
func startEmbedded(o Embedded, log *slog.Logger) (*embedded, error) {
	lock, err := lockDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	e := &embedded{options: o, lock: lock, log: log}
	e.free.Store(math.MaxInt64)
	if err := e.checkSpace(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(fmt.Errorf("nats.data_dir (GENBUS_DATA_DIR): %w", err), lock.Unlock())
	}
	if err := e.start(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return e, nil
}

// server returns the running server, or the previous one during a restart.
func (e *embedded) server() *server.Server { return e.running.Load() }

func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("nats.data_dir (GENBUS_DATA_DIR): %w", err)
	}
	path := filepath.Join(dir, "genbus.lock")
	lock := flock.New(path)
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("nats.data_dir (GENBUS_DATA_DIR): lock %s: %w", path, err)
	}
	if !held {
		return nil, fmt.Errorf("data directory %s is in use by another genbus (lock %s); stop it, or set nats.data_dir (GENBUS_DATA_DIR)", dir, path)
	}
	return lock, nil
}

func (e *embedded) start() error {
	opts, err := serverOptions(e.options)
	if err != nil {
		return err
	}
	if err := tryAddress(e.options.Listen); err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	s.SetLoggerV2(serverLog{e.log.With("component", "nats-server"), &e.faults}, false, false, false)
	s.Start()
	if err := started(s, e.options); err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return err
	}
	e.running.Store(s)
	return nil
}

// started waits until a server accepts connections. A server that cannot use its store never does,
// and says why only in its log. It claims to have JetStream then, but its account has none.
func started(s *server.Server, o Embedded) error {
	if !s.GlobalAccount().JetStreamEnabled() {
		return fmt.Errorf("nats.data_dir (GENBUS_DATA_DIR): JetStream cannot use %s; the error of the NATS server is in the log", o.DataDir)
	}
	if !s.ReadyForConnections(30 * time.Second) {
		return fmt.Errorf("the embedded NATS server did not start on %q within 30s", o.Listen)
	}
	return nil
}

// tryAddress fails if addr is in use. The server would only log the error and keep callers waiting.
func tryAddress(addr string) error {
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("nats.listen (GENBUS_NATS_LISTEN): %w", err)
	}
	return l.Close()
}

func serverOptions(o Embedded) (*server.Options, error) {
	opts := &server.Options{
		ServerName:             "genbus",
		DontListen:             o.Listen == "",
		JetStream:              true,
		StoreDir:               o.DataDir,
		SyncAlways:             !o.NoSync,
		JetStreamMaxStore:      orDefault(o.MaxStore, 16<<30),
		JetStreamMaxMemory:     orDefault(o.MaxMemory, 512<<20),
		MaxPayload:             maxPayload,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		Username:               o.User,
		Password:               o.Password,
	}
	if o.TLS != nil {
		opts.TLS, opts.TLSConfig = true, o.TLS
		opts.TLSVerify = o.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	}
	if o.Listen == "" {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("nats.listen %q: %w", o.Listen, err)
	}
	if opts.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("nats.listen %q: the port is not a number", o.Listen)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	opts.Host = host
	return opts, nil
}

func orDefault(v, otherwise int64) int64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// InProcessConn returns the client's end of a new connection.
func (e *embedded) InProcessConn() (net.Conn, error) { return e.server().InProcessConn() }

// flusherTimeout bounds a write to the embedded server. When it expires, the client reconnects. The
// client's default is a minute. A direct get from a stream whose sync stalls keeps the server from
// reading the connection, which is an unbuffered pipe, and the client holds its lock during a
// write. With a buffer in between, fewer reads succeed (ADR 24).
const flusherTimeout = PublishTimeout

func (e *embedded) inProcess() []nats.Option {
	opts := []nats.Option{nats.InProcessServer(e), nats.FlusherTimeout(flusherTimeout), nats.ReconnectOnFlusherError()}
	if e.options.User != "" {
		opts = append(opts, nats.UserInfo(e.options.User, e.options.Password))
	}
	return opts
}

// stop shuts down the server and waits, because a process that exits too early damages the store.
func (e *embedded) stop() error {
	e.server().Shutdown()
	e.server().WaitForShutdown()
	return e.lock.Unlock()
}

// serverLog forwards the server's log to slog, with notices as debug entries. It notes a full disk in
// faults at once, so that writes to other streams stop before they fail (see watchSpace).
type serverLog struct {
	log    *slog.Logger
	faults *storeFaults
}

func (l serverLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l serverLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l serverLog) Fatalf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l serverLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l serverLog) Tracef(string, ...any)           {}

func (l serverLog) write(level slog.Level, format string, v []any) {
	message := fmt.Sprintf(format, v...)
	text := slog.String("text", message)
	switch {
	case level >= slog.LevelError:
		if err := cannotWrite("a stream", message); err != nil && isFull(err) {
			l.faults.set(err)
		}
		l.log.Error("nats server", text)
	case level >= slog.LevelWarn:
		l.log.Warn("nats server", text)
	default:
		l.log.Debug("nats server", text)
	}
}

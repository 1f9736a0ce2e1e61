// Package service assembles the parts of genbus in one process, starts them in order and stops them
// in reverse order. It reads no flags and prints nothing. It reads no environment variables except
// OpenTelemetry's.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Service holds the parts of one process in the order in which they are built. They are stopped in
// reverse order.
type Service struct {
	cfg      *config.Config // as loaded at startup
	live     *config.Live
	source   config.Source    // where reloads read the configuration
	reloads  <-chan os.Signal // each signal triggers a reload; nil disables reloads
	log      *slog.Logger
	version  string
	started  time.Time
	metrics  *telemetry.Metrics
	tracing  telemetry.Tracing
	health   *telemetry.Health
	unready  bool // not ready for jobs, as last logged; used only by health.Run's goroutine
	broker   *broker.Broker
	routes   *routes.Table
	parts    *parts.Parts
	consumer *consumer.Consumer
	fleet    *fleet.Member
	api      *API
	endLog   func()

	http     *http.Server
	httpAddr net.Listener
	grpcAddr net.Listener
	endCalls func(context.Context) error
	localKey string // the console's key while no operator key is configured; empty unless HTTP listens on loopback

	configRead atomic.Int64 // when the current configuration was read, in Unix nanoseconds
	stopping   atomic.Bool
	leaveFleet func() // leaves the fleet
}

// MaxHeaderBytes limits the header of an HTTP request. Requests with larger headers get a 431
// response. net/http adds a few KiB to the limit.
const MaxHeaderBytes = 64 << 10

// New builds and starts everything except the HTTP and gRPC servers. version is the version that
// the process reports. The caller must call Run on the result. Run starts the servers and finally
// stops everything that New started.
func New(ctx context.Context, cfg *config.Config, log *slog.Logger, version string) (_ *Service, err error) {
	s := &Service{cfg: cfg, live: config.NewLive(cfg), log: log, version: version, started: time.Now(), leaveFleet: func() {}, metrics: telemetry.NewMetrics(version), health: &telemetry.Health{}, endLog: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abort(ctx))
		}
	}()
	// Open the addresses first, so that a port conflict is detected before any job starts.
	if err = s.listen(ctx); err != nil {
		return nil, err
	}
	if tcp, ok := s.httpAddr.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		s.localKey, _ = config.NewKey()
	}
	s.metrics.LabelTenants(cfg.Telemetry.MetricsTenants)
	s.configRead.Store(s.started.UnixNano())
	s.metrics.ConfigRead(s.started)
	s.warnOfEndedKeys()
	if s.tracing, err = telemetry.NewTracing(ctx, log, version, tracingEnv(cfg)); err != nil {
		return nil, err
	}
	if s.routes, err = routes.New(cfg, s.metrics, log); err != nil {
		return nil, err
	}
	if s.broker, err = openBroker(ctx, cfg, log); err != nil {
		return nil, err
	}
	if err = s.broker.Streams().Ensure(ctx); err != nil {
		return nil, err
	}
	if err = s.build(ctx); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

// tracingEnv returns a function that looks up environment variables for tracing. If tracing is
// disabled, the function finds none.
func tracingEnv(cfg *config.Config) func(string) string {
	if !cfg.Telemetry.Enabled() {
		return func(string) string { return "" }
	}
	return os.Getenv
}

// build builds the parts without starting them.
func (s *Service) build(ctx context.Context) (err error) {
	s.parts = parts.New(parts.Options{Config: s.live, Broker: s.broker, Routes: s.routes, Metrics: s.metrics, Tracing: s.tracing, Logger: s.log})
	s.warnOfSmallLog()
	s.consumer = consumer.New(context.WithoutCancel(ctx), s.parts)
	s.fleet = s.newFleet(hostname())
	s.api, err = NewAPI(ctx, s.parts, APIOptions{
		Fleet: s.fleet, Health: s.health, LocalKey: s.localKey, GRPCAddr: s.grpcAddr.Addr().String(), Version: s.version,
	})
	if err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           s.api.Handler,
		ReadHeaderTimeout: s.cfg.HTTP.ReadHeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return nil
}

func (s *Service) start(ctx context.Context) error {
	endLog, err := s.parts.StartLog(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	s.endLog = endLog
	s.addChecks()
	if err := s.joinFleet(ctx); err != nil {
		return err
	}
	if err := s.consumer.Start(ctx); err != nil {
		return err
	}
	s.endCalls, err = s.api.ServeNATS(ctx)
	return err
}

// addChecks registers the health checks that determine whether this replica is ready for jobs.
func (s *Service) addChecks() {
	s.health.Add("jetstream", s.broker.Ready)
	s.health.Add("store", func(context.Context) error { return s.broker.StoreError() })
	s.health.Add("clock", s.clockIsRight)
	s.health.Add("task_log", s.parts.Log.Capacity.Check)
	s.health.Watch(s.readinessChanged)
}

// readinessChanged logs a change in readiness for jobs and updates the metrics.
func (s *Service) readinessChanged(jobs bool, reasons []telemetry.Reason) {
	calls, _ := s.health.Ready()
	s.metrics.Ready(calls, jobs)
	switch {
	case !calls: // stopping, which is already logged
	case !jobs:
		s.log.Warn("not ready for jobs", "reasons", reasons)
		s.unready = true
	case s.unready:
		s.log.Info("ready for jobs again")
		s.unready = false
	}
}

// clockIsRight is a health check of this replica's clock, which is compared with the deadlines in
// the log.
func (s *Service) clockIsRight(context.Context) error {
	if offset, _, known := s.broker.Clock().Offset(); known {
		s.metrics.ClockOffset(offset)
	}
	_, err := s.broker.Clock().Now()
	return err
}

// warnOfSmallLog warns if the job log is too small for the max_in_flight of all routes. In that
// case, admission refuses jobs before the routes reach their limits.
func (s *Service) warnOfSmallLog() {
	cfg, inFlight := s.live.Now(), 0
	for _, route := range cfg.Routes {
		inFlight += route.MaxInFlight
	}
	if want := s.parts.Log.Capacity.BytesFor(inFlight); want > int64(cfg.NATS.Streams.Tasks.MaxBytes) {
		s.log.Warn("task log too small for max_in_flight of all routes",
			"field", "nats.streams.tasks.max_bytes", "max_bytes", int64(cfg.NATS.Streams.Tasks.MaxBytes), "want", want, "in_flight", inFlight)
	}
}

// logCapacity logs how many ordinary jobs a day the job log can hold. It runs after startup, so
// that the addresses are logged first.
func (s *Service) logCapacity(ctx context.Context) {
	figures, err := s.parts.Log.Capacity.Figures(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil || figures.Max <= 0 {
		s.log.Warn("could not read task log capacity", telemetry.KeyError, err)
		return
	}
	age, usage := s.cfg.NATS.Streams.Tasks.MaxAge, s.cfg.NATS.Streams.Usage
	jobs := s.parts.Log.Capacity.JobsPerDay(figures, age)
	s.log.Info("estimated task log capacity per day",
		"jobs", jobs, "max_bytes", figures.Max, "max_age", age.String(), "used", figures.Used, "reserved", figures.Reserved)
	if need := float64(jobs) * usage.MaxAge.Hours() / 24 * joblog.UsageBytes; need > float64(usage.MaxBytes) {
		s.log.Warn("usage stream too small to keep events until max_age",
			"field", "nats.streams.usage.max_bytes", "max_bytes", int64(usage.MaxBytes), "want", int64(need), "max_age", usage.MaxAge.String())
	}
}

func (s *Service) listen(ctx context.Context) (err error) {
	s.httpAddr, err = listener.Open(ctx, listener.Options{
		Addr: s.cfg.HTTP.Addr, MaxConnections: s.cfg.HTTP.MaxConnections, TLS: tlsFiles(s.cfg.HTTP.TLS), Protocols: []string{"h2", "http/1.1"}, Logger: s.log,
	})
	if err != nil {
		return named("http.addr (GENBUS_HTTP_ADDR)", "http.tls", err)
	}
	s.grpcAddr, err = listener.Open(ctx, listener.Options{
		Addr: s.cfg.GRPC.Addr, MaxConnections: s.cfg.GRPC.MaxConnections, TLS: tlsFiles(s.cfg.GRPC.TLS), Protocols: []string{"h2"}, Logger: s.log,
	})
	if err != nil {
		return named("grpc.addr (GENBUS_GRPC_ADDR)", "grpc.tls", err)
	}
	return nil
}

// named adds a configuration key to err. It uses the key of the TLS file for a FileError, and addr
// otherwise.
func named(addr, files string, err error) error {
	if f, ok := errors.AsType[*listener.FileError](err); ok {
		return fmt.Errorf("%s.%s: %w", files, f.Field, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

func tlsFiles(t config.ServerTLS) listener.Files {
	return listener.Files{Cert: t.CertFile, Key: t.KeyFile, ClientCA: t.ClientCAFile}
}

// Config returns the configuration loaded at startup.
func (s *Service) Config() *config.Config { return s.cfg }

// HTTPAddr returns the address of the HTTP server.
func (s *Service) HTTPAddr() net.Addr { return s.httpAddr.Addr() }

// GRPCAddr returns the address of the gRPC server.
func (s *Service) GRPCAddr() net.Addr { return s.grpcAddr.Addr() }

// NATSURL returns the client URL of the embedded server. It is empty unless an embedded server has
// a listener.
func (s *Service) NATSURL() string { return s.broker.ClientURL() }

// Names returns the names of the subjects and streams of the service.
func (s *Service) Names() subject.Space { return s.broker.Names() }

// Run serves until ctx ends or a server fails. It then refuses new work, gives running calls the
// grace period, hands jobs over and stops everything.
func (s *Service) Run(ctx context.Context) error {
	group, serving := errgroup.WithContext(ctx)
	// Health checks run until everything has stopped, because watchers must see the drain and held
	// jobs depend on the broker's state.
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	group.Go(func() error { return ignore(s.http.Serve(s.httpAddr), http.ErrServerClosed) })
	group.Go(func() error { return ignore(s.api.GRPC.GRPCServer().Serve(s.grpcAddr), grpc.ErrServerStopped) })
	group.Go(func() error { return s.health.Run(watched) })
	group.Go(func() error { s.logCapacity(serving); return nil })
	group.Go(func() error { s.countTenants(serving); return nil })
	group.Go(func() error {
		select {
		case err := <-s.broker.Failed():
			s.log.Error("stopping after embedded NATS server failure", telemetry.KeyError, err)
			return err
		case <-serving.Done():
			return nil
		}
	})
	reloading := make(chan struct{})
	go func() {
		defer close(reloading)
		s.keepReloading(serving)
	}()
	group.Go(func() error {
		defer unwatch()
		<-serving.Done()
		s.health.SetDraining()
		<-reloading // a running reload may start work that stop must end
		begin := time.Now()
		if err := s.stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		s.log.Info("stopped", telemetry.KeyDuration, time.Since(begin).Round(time.Millisecond).String())
		return nil
	})
	return group.Wait()
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// stop refuses new work, gives running calls the grace period, hands jobs over and closes
// everything. The health status must already be draining.
func (s *Service) stop(ctx context.Context) error {
	s.log.Info("stopping", "grace", s.cfg.Shutdown.Grace.String())
	s.stopping.Store(true)
	s.parts.Index.HandOver()
	_ = broker.Wait(ctx, s.cfg.Shutdown.Delay) // cannot fail: ctx never ends
	s.api.Drain(nil)
	grace, cancel := context.WithTimeout(ctx, s.cfg.Shutdown.Grace)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return s.endCalls(grace) })
	group.Go(func() error { return s.consumer.Drain(grace) })
	group.Go(func() error { return s.api.Inline.Close(grace) })
	group.Go(func() error { s.api.Core.AwaitWork(grace); return nil })
	group.Go(func() error {
		if err := s.http.Shutdown(grace); err != nil {
			return fmt.Errorf("the grace period ended with running calls: answers by HTTP were cut off: %w", err)
		}
		return nil
	})
	return errors.Join(group.Wait(), s.api.Close(), s.http.Close(), s.release(ctx))
}

// abort cleans up after a failed start. It hands over jobs that have already started.
func (s *Service) abort(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Shutdown.Grace)
	defer cancel()
	var err error
	if s.parts != nil { // s.consumer is then set too
		s.parts.Index.HandOver()
		err = s.consumer.Drain(grace)
	}
	if s.api != nil {
		err = errors.Join(err, s.api.Inline.Close(grace), s.api.Close())
	}
	return errors.Join(err, s.release(ctx))
}

// release closes everything that was opened, even after a partial start.
func (s *Service) release(ctx context.Context) error {
	var err error
	for _, l := range []net.Listener{s.httpAddr, s.grpcAddr} {
		if l != nil {
			err = errors.Join(err, ignore(l.Close(), net.ErrClosed))
		}
	}
	s.leaveFleet()
	s.endLog()
	if s.broker != nil {
		err = errors.Join(err, s.broker.Close())
	}
	if s.routes != nil {
		s.routes.Close()
	}
	if s.parts != nil {
		s.parts.Content.Close()
	}
	if s.tracing.Shutdown != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, s.tracing.Shutdown(flush))
	}
	return err
}

// Package service puts the parts of genbus together in one process, starts them in
// their order and stops them in the opposite one. It is not the command line: it
// reads no flag and no environment but that of OpenTelemetry, and prints nothing.
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

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/api/console"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/api/grpcapi"
	"github.com/genbus/genbus/internal/api/httpapi"
	"github.com/genbus/genbus/internal/api/natsapi"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/operator/erasure"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Service is the parts of one process, built in this order and stopped in the
// opposite one.
type Service struct {
	cfg      *config.Config // as the process was started
	live     *config.Live
	source   config.Source    // where cfg was loaded from
	reloads  <-chan os.Signal // each has it loaded again; nil for never
	log      *slog.Logger
	version  string
	started  time.Time
	metrics  *telemetry.Metrics
	tracing  telemetry.Tracing
	health   *telemetry.Health
	unready  bool // for jobs, as the log says; of the goroutine that watches the health
	broker   *broker.Broker
	routes   *routes.Table
	content  *content.Reader
	tasks    *joblog.Log
	index    *jobindex.Index
	endLog   func()
	consumer *consumer.Consumer
	inline   *inline.Runner
	core     *core.Core
	grpc     *grpcapi.Server

	http     *http.Server
	httpAddr net.Listener
	grpcAddr net.Listener
	endCalls func() error
	localKey string // with which the console calls while no operator's key is configured; empty beyond loopback

	configRead atomic.Int64 // when the configuration was read that is in force, Unix nanoseconds
	stopping   atomic.Bool
	leave      func() // the fleet
}

// MaxHeaderBytes bounds the header of an HTTP request; a longer one is answered
// 431. net/http reads some KiB more before it says so.
const MaxHeaderBytes = 64 << 10

// New builds and starts everything but the servers; version is what the process
// says that it is. What it returned must be run: Run stops it.
func New(ctx context.Context, cfg *config.Config, log *slog.Logger, version string) (_ *Service, err error) {
	s := &Service{cfg: cfg, live: config.NewLive(cfg), log: log, version: version, started: time.Now(), leave: func() {}, metrics: telemetry.NewMetrics(version), health: &telemetry.Health{}, content: content.NewReader(content.Options{}), endLog: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abort(ctx))
		}
	}()
	// The addresses come first: a port that is taken must not cost a job that was
	// begun meanwhile.
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
	return s, s.startWork(ctx)
}

// tracingEnv is the environment that tracing reads: none when it is switched
// off.
func tracingEnv(cfg *config.Config) func(string) string {
	if !cfg.Telemetry.Enabled() {
		return func(string) string { return "" }
	}
	return os.Getenv
}

// startWork builds the parts that carry jobs, and begins to take work.
func (s *Service) startWork(ctx context.Context) error {
	enc := publisher.Encoder{Names: s.broker.Names(), Encoding: publisher.Encoding(s.cfg.Events.Encoding)}
	s.tasks = joblog.New(joblog.Options{
		Broker: s.broker, Encoder: enc, Metrics: s.metrics, Logger: s.log,
		ReaderBuffer: int(s.cfg.Limits.SlowReaderBytes),
	})
	s.warnOfSmallLog()
	s.index = jobindex.New(jobindex.Options{
		Log: s.tasks, Broker: s.broker, Metrics: s.metrics, Logger: s.log, Mode: indexMode(s.cfg), Size: s.cfg.Limits.ListIndex,
		Able: func() error { // deadlines are kept by those who keep the index
			_, err := s.broker.Clock().Now()
			return err
		},
	})
	bodies := broker.NewBodies(s.broker)
	uploads := natsreq.NewUploads(bodies, s.log)
	letters := quota.NewDeadLetterQuota(s.live, s.broker)
	dead := deadletter.Store{Broker: s.broker, Bodies: bodies, Metrics: s.metrics, Logger: s.log}
	jobs := queue.New(s.live, s.broker, s.tasks, letters)
	adm := admission.New(admission.Options{
		Config: s.live, Broker: s.broker, Log: s.tasks, Index: s.index, Bodies: bodies, Queue: jobs, Letters: letters, Metrics: s.metrics,
	})
	s.consumer = consumer.New(context.WithoutCancel(ctx), consumer.Options{
		Config: s.live, Broker: s.broker, Log: s.tasks, Index: s.index, Encoder: enc, Bodies: bodies, Uploads: uploads, Content: s.content, Routes: s.routes,
		Admission: adm, Queue: jobs, Quota: letters, Letters: dead, Metrics: s.metrics, Tracing: s.tracing, Logger: s.log,
	})
	s.inline = inline.New(context.WithoutCancel(ctx), inline.Options{
		Config: s.live, Admission: adm, Routes: s.routes, Log: s.tasks, Broker: s.broker, Encoder: enc, Bodies: bodies,
		Metrics: s.metrics, Tracing: s.tracing, Logger: s.log,
	})
	s.tasks.OnNotice(s.inline.Notice)
	// The index is started after its observers, so that they hear of what is in the log.
	if err := s.followLog(ctx); err != nil {
		return err
	}
	s.addChecks()
	eraser := erasure.Eraser{Broker: s.broker, Queue: jobs, Log: s.tasks, Index: s.index, Bodies: bodies}
	s.core = core.New(core.Options{
		Config: s.live, Admission: adm, Queue: jobs, Log: s.tasks, Index: s.index, Bodies: bodies, Eraser: eraser, Routes: s.routes, Content: s.content, Inline: s.inline,
		Chats:   chatlog.New(s.broker, s.tasks, bodies, chatlog.Options{ReaderBuffer: int(s.cfg.Limits.SlowReaderBytes)}),
		Metrics: s.metrics, Logger: s.log, LocalKey: s.localKey,
	})
	record := audit.Log{Broker: s.broker, Logger: s.log}
	member := s.newFleet(hostname(), adm)
	op := operator.Operator{
		Audit: record,
		Letters: &operator.DeadLetterActions{
			Config: s.live, Names: s.broker.Names(), Streams: deadletter.Streams{Broker: s.broker}, Log: s.tasks, Bodies: bodies,
			Uploads: uploads, Admission: adm, Items: jobs.Items, Routes: s.routes, Logger: s.log,
		},
		Routes: &operator.Routes{
			Config: s.live, Table: s.routes, Queue: jobs, Rates: s.index, Audit: record,
			Settler: orphans.Settler{Log: s.tasks, Queue: jobs, Letters: dead, Logger: s.log},
		},
		Jobs: operator.Jobs{Log: s.tasks, Index: s.index, Queue: jobs, Eraser: eraser, Fleet: member},
	}
	op.Requests = operator.Requests{Config: s.live, Items: jobs.Items, Bodies: bodies, Letters: op.Letters, Admission: adm}
	op.Replicas = operator.Replicas{Fleet: member}
	op.Tenants, op.Streams = operator.Tenants{Index: s.index, Config: s.live, Fleet: member, Bodies: bodies}, operator.Streams{Broker: s.broker}
	op.Overview = operator.NewOverview(op.Routes, &deadletter.Counter{Streams: deadletter.Streams{Broker: s.broker}}, member)
	op.Bulk = operator.Bulk{Jobs: op.Jobs, Letters: op.Letters, Cancel: s.core.Jobs.CancelForOperator}
	if err := s.buildServers(ctx, op); err != nil {
		return err
	}
	if err := s.joinFleet(ctx, member); err != nil {
		return err
	}
	if err := s.consumer.Start(ctx); err != nil {
		return err
	}
	var err error
	s.endCalls, err = natsapi.Start(ctx, s.broker.Conn(), natsapi.Options{
		Core: s.core, Names: s.broker.Names(), Uploads: uploads, Tracing: s.tracing, Logger: s.log, Version: s.version,
	})
	return err
}

// indexMode is whether this replica keeps the index of jobs. An embedded broker has no other
// replica.
func indexMode(cfg *config.Config) jobindex.Mode {
	if cfg.NATS.Embedded() {
		return jobindex.Alone
	}
	return jobindex.Mode(cfg.Index)
}

// buildServers builds the servers of gRPC and HTTP, whose gateway calls the former.
func (s *Service) buildServers(ctx context.Context, op operator.Operator) (err error) {
	s.grpc, err = grpcapi.New(grpcapi.Options{
		Core: s.core, Config: s.live, Routes: s.routes, Operator: op, Health: s.health, Metrics: s.metrics, Tracing: s.tracing, Logger: s.log,
	})
	if err != nil {
		return err
	}
	var handler *httpapi.Handler
	pages, err := console.New(console.Options{
		Content: func(w http.ResponseWriter, r *http.Request, tenant string) { // the handler has the pages
			httpapi.ForOperators{Handler: handler}.Content(w, r, tenant)
		},
		ChatEvents: func(w http.ResponseWriter, r *http.Request, tenant string) {
			httpapi.ForOperators{Handler: handler}.ChatEvents(w, r, tenant)
		},
		Config: s.live, Callers: s.core.Callers, GRPC: s.grpc.InProcess(), Names: s.broker.Names(), GRPCAddr: s.grpcAddr.Addr().String(), NATSURL: s.broker.ClientURL(),
		Version: s.version, LocalKey: s.localKey, WriteTimeout: s.core.WriteTimeout, Logger: s.log,
	})
	if err != nil {
		return err
	}
	handler, err = httpapi.New(ctx, httpapi.Options{
		Console: pages, Core: s.core, Config: s.live, Names: s.broker.Names(), Routes: s.routes, GRPC: s.grpc.InProcess(),
		Health: s.health, Metrics: s.metrics, Tracing: s.tracing, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.cfg.HTTP.ReadHeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// followLog begins to hear of events in the log.
func (s *Service) followLog(ctx context.Context) error {
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	endLog, err := s.tasks.Start(following)
	if err != nil {
		cancel()
		return err
	}
	s.endLog = func() { cancel(); endLog() }
	endIndex, err := s.index.Start(following)
	if err != nil {
		return err
	}
	s.endLog = func() { cancel(); endIndex(); endLog() }
	return nil
}

// addChecks has the health know when this replica takes jobs.
func (s *Service) addChecks() {
	s.health.Add("jetstream", s.broker.Ready)
	s.health.Add("store", func(context.Context) error { return s.broker.StoreError() })
	s.health.Add("clock", s.clockIsRight)
	s.health.Add("task_log", s.tasks.Capacity.Check)
	s.health.Watch(s.readinessChanged)
}

// readinessChanged says what has become of the readiness for jobs.
func (s *Service) readinessChanged(jobs bool, reasons []telemetry.Reason) {
	calls, _ := s.health.Ready()
	s.metrics.Ready(calls, jobs)
	switch {
	case !calls: // it stops, which is in the log already
	case !jobs:
		s.log.Warn("not ready for jobs", "reasons", reasons)
		s.unready = true
	case s.unready:
		s.log.Info("ready for jobs again")
		s.unready = false
	}
}

// clockIsRight is a health check: the deadlines in the log are compared with this clock.
func (s *Service) clockIsRight(context.Context) error {
	if offset, _, known := s.broker.Clock().Offset(); known {
		s.metrics.ClockOffset(offset)
	}
	_, err := s.broker.Clock().Now()
	return err
}

// warnOfSmallLog warns where the task log is too small for the jobs that all routes may have in
// flight: admission refuses before there are as many.
func (s *Service) warnOfSmallLog() {
	cfg, inFlight := s.live.Now(), 0
	for _, route := range cfg.Routes {
		inFlight += route.MaxInFlight
	}
	if want := s.tasks.Capacity.BytesFor(inFlight); want > int64(cfg.NATS.Streams.Tasks.MaxBytes) {
		s.log.Warn("task log is too small for max_in_flight of all routes",
			"field", "nats.streams.tasks.max_bytes", "max_bytes", int64(cfg.NATS.Streams.Tasks.MaxBytes), "want", want, "in_flight", inFlight)
	}
}

// sayCapacity logs how many jobs the task log holds. It is not part of the start: the
// addresses are what readers of the log look for first.
func (s *Service) sayCapacity(ctx context.Context) {
	figures, err := s.tasks.Capacity.Figures(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil || figures.Max <= 0 {
		s.log.Warn("capacity of the task log is unknown", telemetry.KeyError, err)
		return
	}
	age, usage := s.cfg.NATS.Streams.Tasks.MaxAge, s.cfg.NATS.Streams.Usage
	jobs := s.tasks.Capacity.JobsPerDay(figures, age)
	s.log.Info("capacity of the task log in ordinary jobs a day",
		"jobs", jobs, "max_bytes", figures.Max, "max_age", age.String(), "used", figures.Used, "reserved", figures.Reserved)
	if need := float64(jobs) * usage.MaxAge.Hours() / 24 * joblog.UsageBytes; need > float64(usage.MaxBytes) {
		s.log.Warn("usage events of so many jobs do not fit into their stream until they are old enough; the oldest go first",
			"field", "nats.streams.usage.max_bytes", "max_bytes", int64(usage.MaxBytes), "want", int64(need), "max_age", usage.MaxAge.String())
	}
}

// listen opens the addresses.
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

// named says which field of the configuration an error is about: the address, or one
// of the files of TLS.
func named(addr, files string, err error) error {
	if f, ok := errors.AsType[*listener.FileError](err); ok {
		return fmt.Errorf("%s.%s: %w", files, f.Field, err)
	}
	return fmt.Errorf("%s: %w", addr, err)
}

func tlsFiles(t config.ServerTLS) listener.Files {
	return listener.Files{Cert: t.CertFile, Key: t.KeyFile, ClientCA: t.ClientCAFile}
}

// Config is the configuration that the service was started with.
func (s *Service) Config() *config.Config { return s.cfg }

// HTTPAddr is where HTTP is served.
func (s *Service) HTTPAddr() net.Addr { return s.httpAddr.Addr() }

// GRPCAddr is where gRPC is served.
func (s *Service) GRPCAddr() net.Addr { return s.grpcAddr.Addr() }

// NATSURL is where clients reach the embedded server; empty when there is none, or
// when it has no listener.
func (s *Service) NATSURL() string { return s.broker.ClientURL() }

// Names are the subjects and streams that the service uses.
func (s *Service) Names() subject.Space { return s.broker.Names() }

// Run serves until ctx ends or a server fails, and then stops everything: new work is
// refused at once, calls in hand may end within the grace period, and jobs are handed
// over.
func (s *Service) Run(ctx context.Context) error {
	group, serving := errgroup.WithContext(ctx)
	// Health is watched until all is stopped: its watchers have to hear of the
	// draining, and those in hand of what the broker does.
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	group.Go(func() error { return ignore(s.http.Serve(s.httpAddr), http.ErrServerClosed) })
	group.Go(func() error { return ignore(s.grpc.GRPCServer().Serve(s.grpcAddr), grpc.ErrServerStopped) })
	group.Go(func() error { return s.health.Run(watched) })
	group.Go(func() error { s.sayCapacity(serving); return nil })
	group.Go(func() error { s.countTenants(serving); return nil })
	group.Go(func() error {
		select {
		case err := <-s.broker.Failed():
			s.log.Error("embedded NATS server failed", telemetry.KeyError, err)
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
		<-reloading // one in hand begins what the stop is to end
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

// stop refuses new work at once, lets the calls in hand finish within the grace
// period, hands the rest over, and closes. The replica is said to be draining already.
func (s *Service) stop(ctx context.Context) error {
	s.log.Info("stopping", "grace", s.cfg.Shutdown.Grace.String())
	s.stopping.Store(true)
	s.index.Leave()
	_ = broker.Wait(ctx, s.cfg.Shutdown.Delay) // ctx has no end
	s.grpc.Drain()
	s.core.Drain(nil)
	grace, cancel := context.WithTimeout(ctx, s.cfg.Shutdown.Grace)
	defer cancel()
	var group errgroup.Group
	group.Go(s.endCalls)
	group.Go(func() error { return s.consumer.Drain(grace) })
	group.Go(func() error { return s.inline.Close(grace) })
	group.Go(func() error {
		if err := s.http.Shutdown(grace); err != nil {
			return fmt.Errorf("the grace period ended with calls in hand: answers by HTTP were cut off: %w", err)
		}
		return nil
	})
	err := group.Wait()
	s.core.Close()
	err = errors.Join(err, s.grpc.Close(), s.http.Close())
	return errors.Join(err, s.release(ctx))
}

// abort ends a start that failed half way. Work that had begun is handed over.
func (s *Service) abort(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Shutdown.Grace)
	defer cancel()
	var err error
	if s.index != nil {
		s.index.Leave()
	}
	if s.consumer != nil {
		err = s.consumer.Drain(grace)
	}
	if s.inline != nil {
		err = errors.Join(err, s.inline.Close(grace))
	}
	if s.grpc != nil {
		s.core.Close()
		err = errors.Join(err, s.grpc.Close())
	}
	return errors.Join(err, s.release(ctx))
}

// release closes what was opened, however far that went.
func (s *Service) release(ctx context.Context) error {
	var err error
	for _, l := range []net.Listener{s.httpAddr, s.grpcAddr} {
		if l != nil {
			err = errors.Join(err, ignore(l.Close(), net.ErrClosed))
		}
	}
	s.leave()
	s.endLog()
	if s.broker != nil {
		err = errors.Join(err, s.broker.Close())
	}
	if s.routes != nil {
		s.routes.Close()
	}
	s.content.Close()
	if s.tracing.Shutdown != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, s.tracing.Shutdown(flush))
	}
	return err
}

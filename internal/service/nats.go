package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener"
	"github.com/genbus/genbus/internal/subject"
)

func openBroker(ctx context.Context, cfg *config.Config, log *slog.Logger) (*broker.Broker, error) {
	names, err := subject.New(cfg.NATS.Prefix)
	if err != nil {
		return nil, err
	}
	o := broker.Options{Names: names, Replicas: cfg.NATS.Replicas, Limits: limits(cfg), Logger: log}
	if cfg.NATS.Embedded() {
		o.Embedded = broker.Embedded{
			DataDir: cfg.NATS.DataDir, NoSync: !cfg.NATS.SyncAlways, User: cfg.NATS.User, Password: cfg.NATS.Password.Reveal(),
			MaxStore: int64(cfg.NATS.MaxStoreBytes), MaxMemory: int64(cfg.NATS.MaxMemoryBytes),
		}
		if cfg.NATS.Listen != config.ListenNone {
			o.Embedded.Listen = cfg.NATS.Listen
		}
		if err := secureNATS(cfg.NATS, log, &o.Embedded); err != nil {
			return nil, err
		}
		return broker.Open(ctx, o)
	}
	o.URL = cfg.NATS.URL
	o.Connect = connectOptions(cfg.NATS)
	return broker.Open(ctx, o)
}

// secureNATS reads the TLS files of an embedded server if it has any.
func secureNATS(n config.NATS, log *slog.Logger, into *broker.Embedded) error {
	if !n.Embedded() || n.TLS.CertFile == "" {
		return nil
	}
	secure, err := listener.Secure(listener.Files{Cert: n.TLS.CertFile, Key: n.TLS.KeyFile, ClientCA: n.TLS.CAFile}, log)
	if f, ok := errors.AsType[*listener.FileError](err); ok && f.Field == "client_ca_file" {
		return fmt.Errorf("nats.tls.ca_file: %w", err)
	}
	if err != nil {
		return named("nats.listen", "nats.tls", err)
	}
	into.TLS = secure
	return nil
}

func connectOptions(n config.NATS) []nats.Option {
	var opts []nats.Option
	if n.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(n.CredsFile))
	}
	if n.User != "" {
		opts = append(opts, nats.UserInfo(n.User, n.Password.Reveal()))
	}
	if n.TLS.CAFile != "" {
		opts = append(opts, nats.RootCAs(n.TLS.CAFile))
	}
	if n.TLS.CertFile != "" {
		opts = append(opts, nats.ClientCert(n.TLS.CertFile, n.TLS.KeyFile))
	}
	return opts
}

func limits(cfg *config.Config) broker.Limits {
	s := cfg.NATS.Streams
	return broker.Limits{
		RequestsMaxMsgs: s.Requests.MaxMsgs, RequestsMaxBytes: int64(s.Requests.MaxBytes),
		WorkMaxMsgs: s.Work.MaxMsgs, WorkMaxBytes: int64(s.Work.MaxBytes),
		TasksMaxAge: s.Tasks.MaxAge, TasksMaxBytes: int64(s.Tasks.MaxBytes),
		ChunksMaxAge: s.Chunks.MaxAge, ChunksMaxBytes: int64(s.Chunks.MaxBytes),
		DeadMaxAge: s.Dead.MaxAge, DeadMaxBytes: int64(s.Dead.MaxBytes),
		RejectedMaxAge: s.Rejected.MaxAge, RejectedMaxBytes: int64(s.Rejected.MaxBytes),
		UsageMaxAge: s.Usage.MaxAge, UsageMaxBytes: int64(s.Usage.MaxBytes),
		OpsMaxAge: s.Ops.MaxAge, OpsMaxBytes: int64(s.Ops.MaxBytes), BodiesMaxBytes: int64(cfg.Limits.BodiesBytes), BodiesMaxMsgs: cfg.Limits.BodiesMessages,
		BodiesReserved: int64(s.Bodies.MaxBytes),
	}
}

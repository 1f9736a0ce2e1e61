// Package servicetest runs a complete genbus service with a sandbox upstream in the process of a
// test or example. Nothing is mocked.
package servicetest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
)

// Options configure a service. Start requires DataDir or NATSURL.
type Options struct {
	// NATSURL is the URL of the NATS server to use. Default: an embedded server.
	NATSURL string
	// DataDir is the data directory of the embedded server.
	DataDir string
	// Listen is the address of the embedded server. Default: a free loopback port.
	Listen string
	// Upstream is the URL of a sandbox. Default: a new sandbox, configured by Sandbox.
	Upstream string
	Sandbox  sandbox.Options
	// Logger is the service's logger. Default: no logs.
	Logger *slog.Logger
	// Change, if set, is called last to modify the configuration.
	Change func(*config.Config)
}

// Running is a running service.
type Running struct {
	*service.Service
	up      *sandbox.Server
	stop    context.CancelFunc
	stopped func() error
}

// Start starts a service, which runs until Stop is called.
func Start(o Options) (_ *Running, err error) {
	r := &Running{stop: func() {}}
	if o.Upstream == "" {
		if r.up, err = sandbox.Start("127.0.0.1:0", o.Sandbox); err != nil {
			return nil, err
		}
		o.Upstream = r.up.URL()
	}
	cfg, err := configure(o)
	if err != nil {
		return nil, errors.Join(err, r.closeUpstream())
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	if r.Service, err = service.New(ctx, cfg, log, "test"); err != nil {
		r.stop()
		return nil, errors.Join(err, r.closeUpstream())
	}
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stopped = sync.OnceValue(func() error { return errors.Join(<-ended, r.closeUpstream()) })
	return r, nil
}

func configure(o Options) (*config.Config, error) {
	cfg := config.Default()
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if o.NATSURL != "" {
		cfg.NATS.URL, cfg.NATS.Replicas = o.NATSURL, 1
	} else {
		cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = o.DataDir, cmp.Or(o.Listen, "127.0.0.1:0"), false
	}
	if err := cfg.AddSandbox(o.Upstream); err != nil {
		return nil, err
	}
	for i := range cfg.Routes {
		if cfg.Routes[i].Kind == config.KindVideo {
			cfg.Routes[i].Poll.Interval = 100 * time.Millisecond
		}
	}
	if o.Change != nil {
		o.Change(cfg)
	}
	return cfg, cfg.Prepare()
}

// Stop stops the service and any sandbox that Start started. It may be called more than once.
func (r *Running) Stop() error {
	r.stop()
	return r.stopped()
}

func (r *Running) closeUpstream() error {
	if r.up == nil {
		return nil
	}
	return r.up.Close()
}

// New starts a service for a test and stops it when the test ends. By default, the embedded server
// stores its data in a temporary directory.
func New(t testing.TB, o Options) *Running {
	t.Helper()
	if o.NATSURL == "" && o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	r, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

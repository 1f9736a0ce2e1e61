package service

import (
	"context"
	"errors"
	"net/http"

	"github.com/genbus/genbus/internal/api/console"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/api/grpcapi"
	"github.com/genbus/genbus/internal/api/httpapi"
	"github.com/genbus/genbus/internal/api/natsapi"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/telemetry"
)

// APIOptions holds the dependencies of an API other than its Parts.
type APIOptions struct {
	Fleet  *fleet.Member
	Health *telemetry.Health
	// LocalKey is the key of core.LocalOperator, or empty.
	LocalKey string
	// GRPCAddr is the gRPC address that the console shows.
	GRPCAddr string
	Version  string
}

// API serves callers and operators over gRPC, HTTP and NATS. It does not open listeners.
type API struct {
	*parts.Parts
	APIOptions
	Inline  *inline.Runner // must be closed by the caller of NewAPI
	Core    *core.Core
	GRPC    *grpcapi.Server
	Handler *httpapi.Handler
}

// NewAPI builds the API of a replica. Call it before p.StartLog.
func NewAPI(ctx context.Context, p *parts.Parts, o APIOptions) (_ *API, err error) {
	a := &API{Parts: p, APIOptions: o}
	a.Inline = inline.New(context.WithoutCancel(ctx), inline.Options{Parts: p})
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Inline.Close(context.WithoutCancel(ctx)))
		}
	}()
	p.Log.OnPeerNotification(a.Inline.HandlePeerNotification)
	a.Core = core.New(core.Options{Parts: p, Inline: a.Inline, LocalKey: o.LocalKey})
	op := operator.New(p, o.Fleet, a.Core.Jobs.CancelIf)
	a.GRPC, err = grpcapi.New(grpcapi.Options{
		Core: a.Core, Config: p.Config, Operator: op, Health: o.Health, Metrics: p.Metrics, Tracing: p.Tracing, Logger: p.Logger,
	})
	if err != nil {
		return nil, err
	}
	if err := a.buildHandler(ctx); err != nil {
		return nil, errors.Join(err, a.GRPC.Close())
	}
	return a, nil
}

// buildHandler builds the console and the HTTP handler. The handler's gateway calls the gRPC
// services in process.
func (a *API) buildHandler(ctx context.Context) error {
	pages, err := console.New(console.Options{
		Content: func(w http.ResponseWriter, r *http.Request, tenant string) { // a closure, because a.Handler is built after the console
			httpapi.ForOperators{Handler: a.Handler}.Content(w, r, tenant)
		},
		ChatEvents: func(w http.ResponseWriter, r *http.Request, tenant string) {
			httpapi.ForOperators{Handler: a.Handler}.ChatEvents(w, r, tenant)
		},
		Config: a.Config, Callers: a.Core.Callers, GRPC: a.GRPC.InProcess(), Names: a.Broker.Names(), GRPCAddr: a.GRPCAddr, NATSURL: a.Broker.ClientURL(),
		Version: a.Version, LocalKey: a.LocalKey, WriteTimeout: a.Core.WriteTimeout, Logger: a.Logger,
	})
	if err != nil {
		return err
	}
	a.Handler, err = httpapi.New(ctx, httpapi.Options{
		Console: pages, Core: a.Core, Config: a.Config, Names: a.Broker.Names(), Routes: a.Routes, GRPC: a.GRPC.InProcess(),
		Health: a.Health, Metrics: a.Metrics, Tracing: a.Tracing, Logger: a.Logger,
	})
	return err
}

// ServeNATS answers NATS requests until stop is called. See natsapi.Start.
func (a *API) ServeNATS(ctx context.Context) (stop func(context.Context) error, err error) {
	return natsapi.Start(ctx, a.Broker.Conn(), natsapi.Options{
		Core: a.Core, Names: a.Broker.Names(), Uploads: a.Uploads, Tracing: a.Tracing, Logger: a.Logger, Version: a.Version,
	})
}

// Drain refuses new calls and ends calls that only watch or wait, with cause as their error. See
// core.Core.Drain.
func (a *API) Drain(cause error) {
	a.GRPC.Drain()
	a.Core.Drain(cause)
}

// Close ends the remaining calls. It may be called more than once.
func (a *API) Close() error {
	a.Core.Close()
	return a.GRPC.Close()
}

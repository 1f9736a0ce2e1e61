// Package operator is what operators can do about failures: look at dead
// letters and make jobs of them, erase jobs, pause routes, and settle the jobs of routes
// that are not configured. It does not know who calls: internal/api/grpcapi lets
// only operators in.
package operator

import (
	"log/slog"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/erasure"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/orphans"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
)

// Options are the parts that an Operator works with. All are required.
type Options struct {
	Config    *config.Live
	Broker    *broker.Broker
	Log       *joblog.Log
	Bodies    *broker.Bodies
	Uploads   *natsreq.Uploads
	Admission *admission.Admission
	Queue     *queue.Queue
	Orphans   orphans.Settler
	Routes    *routes.Table
	Eraser    erasure.Eraser
	Logger    *slog.Logger
}

// Operator works over all tenants. It is safe for concurrent use, and several
// replicas may do the same at the same time. Its errors are *errcode.Error where they
// have a meaning of their own; those of the broker and of the log come as they are.
type Operator struct {
	o       Options
	letters deadletter.Streams
}

// New returns an operator.
func New(o Options) *Operator { return &Operator{o: o, letters: deadletter.Streams{Broker: o.Broker}} }

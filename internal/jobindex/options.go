package jobindex

import (
	"log/slog"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/telemetry"
)

// DefaultSize is the default of Options.Size.
const DefaultSize = 100_000

// Mode decides when a replica keeps the index.
type Mode string

const (
	// Alone keeps the index and contacts no other replica. It is for deployments with a single
	// replica.
	Alone Mode = ""
	// Auto keeps the index if fewer than two other replicas do.
	Auto Mode = "auto"
	// On always keeps the index.
	On Mode = "on"
	// Off keeps the index only if no other replica has kept it for half a minute.
	Off Mode = "off"
)

// Observer receives events while this replica keeps the index: first the last event of every job in
// the log, and then every commit of every replica. Its methods must not block.
type Observer interface {
	Observe(s joblog.Summary)
	// Reset is called after the last Observe, when this replica stops keeping the index.
	Reset()
}

// Options configures an Index. Log, Metrics and Logger are required. Broker is required unless Mode
// is Alone.
type Options struct {
	Log     *joblog.Log
	Broker  *broker.Broker
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	Mode    Mode
	// Size is the maximum number of jobs in the index. Default: DefaultSize.
	Size int
	// Able returns an error while this replica's observers cannot do their work. Another replica
	// then takes over the index. Default: a function that always returns nil.
	Able func() error
}

package jobindex

import (
	"log/slog"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/telemetry"
)

// DefaultSize is how many jobs an index lists where Options say nothing.
const DefaultSize = 100_000

// Mode says whether a replica keeps the index.
type Mode string

// The modes.
const (
	// Alone keeps it, asks no other replica and is asked by none: there is none.
	Alone Mode = ""
	// Auto keeps it where fewer than two others do.
	Auto Mode = "auto"
	// On keeps it in any case.
	On Mode = "on"
	// Off keeps it only where no other replica has for half a minute.
	Off Mode = "off"
)

// Observer hears, while this replica keeps the index, of the last event of every job that the
// log has, and of every commit of every replica. It must not block.
type Observer interface {
	Notice(n joblog.Notice)
	// Forget is called when this replica keeps the index no more, after the last Notice.
	Forget()
}

// Options makes an Index. Log, Metrics and Logger are required, and Broker unless it is alone.
type Options struct {
	Log     *joblog.Log
	Broker  *broker.Broker
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	Mode    Mode
	// Size bounds the jobs that List knows. Default: DefaultSize.
	Size int
	// Able is an error while this replica's observers cannot do what they are for, so that
	// another one is to keep the index. Default: they always can.
	Able func() error
}

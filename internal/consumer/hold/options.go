package hold

import (
	"context"
	"log/slog"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options are the dependencies of a Holder. All but Tracing are required.
type Options struct {
	Broker      *broker.Broker
	Log         *joblog.Log
	Bodies      *broker.Bodies
	DeadLetters deadletter.Store
	// Admitted returns the job as this process admitted it, or false. It saves a read on the first
	// delivery.
	Admitted func(context.Context, subject.JobName) (joblog.Entry, bool)
	Queue    *queue.Queue
	Metrics  *telemetry.Metrics
	Tracing  telemetry.Tracing
	Logger   *slog.Logger
	// Alone is true if no other replica can hold a job, as with an embedded broker.
	Alone bool
}

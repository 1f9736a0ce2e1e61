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

// Options are the parts that a Holder works with. All are required, except Tracing.
type Options struct {
	Broker      *broker.Broker
	Log         *joblog.Log
	Bodies      *broker.Bodies
	DeadLetters deadletter.Store
	// Admitted returns the job as the admission of this process left it; false where that
	// is not known. It saves a read on the first delivery.
	Admitted func(context.Context, subject.JobName) (joblog.Entry, bool)
	Queue    *queue.Queue
	Metrics  *telemetry.Metrics
	Tracing  telemetry.Tracing
	Logger   *slog.Logger
	// Alone is true where no other replica can hold a job, as of an embedded broker.
	Alone bool
}

// Package video runs video tasks. It logs each create request before sending it, sends it at most
// once, polls the upstream's task and copies the result if requested.
package video

import (
	"cmp"
	"context"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options holds the dependencies that all routes of a process share. All fields except LookUps,
// Missing and ResultWait are required.
type Options struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Content *content.Reader
	// ReserveDeadLetter reserves capacity for the dead letter of a tenant's submission until
	// release is called. The error is an *errcode.Error.
	ReserveDeadLetter func(ctx context.Context, tenant string) (release func(), err error)
	// LookUps lists the delays of lookups after a submission with an unknown outcome, measured from
	// when this process detected it. Only upstreams that can find tasks by our ID are asked.
	// Default: 0 s, 10 s, 60 s and 5 min.
	LookUps []time.Duration
	// Missing is how long every poll must say that the upstream does not know the task before the
	// job fails. Default 10 min.
	Missing time.Duration
	// ResultWait is how long the result of a video may be missing after its upstream reported
	// success. Default: 10 min.
	ResultWait time.Duration
}

const (
	// maxPolls bounds the concurrent polls of one route in one process.
	maxPolls = 512
	// maxCopies bounds the concurrent copies in one process.
	maxCopies = 8
)

// Runners creates the Runner of each route in a process.
type Runners struct {
	Options
	calls  *calls
	copies chan struct{} // limits concurrent copies
}

// New returns a Runners with the given options.
func New(o Options) *Runners {
	if o.LookUps == nil {
		o.LookUps = defaultLookUps
	}
	o.Missing = cmp.Or(o.Missing, defaultMissing)
	o.ResultWait = cmp.Or(o.ResultWait, 10*time.Minute)
	return &Runners{Options: o, calls: &calls{cfg: o.Config, metrics: o.Holder.Metrics}, copies: make(chan struct{}, maxCopies)}
}

// Runner runs the video tasks of one route.
type Runner struct {
	shared  *Runners
	route   string
	metrics *telemetry.RouteMetrics
	polls   *pollSlots
}

// Runner returns a new runner for a route.
func (r *Runners) Runner(route string, metrics *telemetry.RouteMetrics) *Runner {
	return &Runner{shared: r, route: route, metrics: metrics, polls: newPollSlots(maxPolls)}
}

// Package video carries video tasks to their end: it logs each create and sends it to the upstream
// at most once, polls the upstream's task, and copies the result if requested.
package video

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options are shared by the routes of a process. All are required but LookUps.
type Options struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Content *content.Reader
	// ReserveLetter reserves capacity for a dead letter of a tenant's submission, until release is
	// called. The error is an *errcode.Error.
	ReserveLetter func(ctx context.Context, tenant string) (release func(), err error)
	// LookUps schedules the look-ups of a task whose submission has an unknown outcome, from when
	// that was found, at upstreams that find tasks by our ID. Default: at once, and after 10 s, 60
	// s and 5 min.
	LookUps []time.Duration
}

const (
	// maxPolls bounds the concurrent polls of one route in one process.
	maxPolls = 512
	// maxCopies bounds the concurrent copies of one process.
	maxCopies = 8
)

// Runners creates the runners of a process's routes.
type Runners struct {
	Options
	calls  *calls
	copies chan struct{} // limits concurrent copies
}

// New returns Runners that has created no runner yet.
func New(o Options) *Runners {
	if o.LookUps == nil {
		o.LookUps = defaultLookUps
	}
	return &Runners{Options: o, calls: &calls{cfg: o.Config, metrics: o.Holder.Metrics}, copies: make(chan struct{}, maxCopies)}
}

// Runner takes the videos of one route.
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

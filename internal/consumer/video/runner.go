// Package video carries video tasks to their end: a create is written to the log and sent
// to the upstream at most once, the upstream's task is polled, and its result is copied
// where that is asked for.
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

// Options are what the routes of a process share. All are required but LookUps.
type Options struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Content *content.Reader
	// ReserveLetter makes sure that a submission of a tenant's video may leave a dead
	// letter, until release is called. The error is a *errcode.Error.
	ReserveLetter func(ctx context.Context, tenant string) (release func(), err error)
	// LookUps is when an upstream that finds tasks by an ID of ours is asked for one whose
	// submission has no known outcome, from when that was found. Default: at once, and after
	// 10 s, 60 s and 5 min.
	LookUps []time.Duration
}

const (
	// maxPolls is the number of polls that one route has in flight in one process.
	maxPolls = 512
	// maxCopies is how many results one process copies at a time.
	maxCopies = 8
)

// Runners makes the runners of a process's routes.
type Runners struct {
	Options
	calls  *calls
	copies chan struct{} // bounds the results that are being copied
}

// New returns no runner yet.
func New(o Options) *Runners {
	if o.LookUps == nil {
		o.LookUps = defaultLookUps
	}
	return &Runners{Options: o, calls: &calls{cfg: o.Config, metrics: o.Holder.Metrics}, copies: make(chan struct{}, maxCopies)}
}

// Runner takes the video tasks of one route.
type Runner struct {
	shared  *Runners
	route   string
	metrics *telemetry.RouteMetrics
	polls   *pollSlots
}

// Runner is the one of a route.
func (r *Runners) Runner(route string, metrics *telemetry.RouteMetrics) *Runner {
	return &Runner{shared: r, route: route, metrics: metrics, polls: newPollSlots(maxPolls)}
}

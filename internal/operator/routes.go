package operator

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
)

// A route is paused by pausing its durable consumer. JetStream then delivers the route's messages
// to no replica. The pause survives restarts, and it also survives when a starting replica updates
// the consumer. (In server 2.15, creating a consumer that already exists keeps the existing
// pause_until, on one node and on three.)

const (
	// pausedYears is the length of a pause in JetStream. For operators, a pause lasts until Resume.
	pausedYears = 100
	// pauseWithin bounds the wait until all servers have applied a pause. A cluster answers as soon
	// as the pause has been proposed.
	pauseWithin = 5 * time.Second
)

// Routes lists, pauses and resumes routes, and ends the jobs of unconfigured ones.
type Routes struct {
	Config *config.Live
	Table  *routes.Table
	Queue  *queue.Queue
	Rates  *jobindex.Index
	Ender  orphans.Ender
	Audit  audit.Log
}

// RouteStates returns the state of each configured route across all replicas, sorted by kind and
// name.
func (p *Routes) RouteStates(ctx context.Context) ([]*genbusv1.RouteState, error) {
	states, err := p.states(ctx)
	if err != nil {
		return nil, err
	}
	rates, err := p.Rates.Rates(ctx)
	for _, s := range states {
		if s.GetPaused() {
			s.PausedSince, s.PausedBy = p.pausedBy(ctx, s.GetKind(), s.GetName())
		}
		if err == nil {
			s.StartsLastMinute = startsLastMinute(rates, s)
		}
	}
	return states, nil
}

// startsLastMinute returns the number of jobs of a route that started in the last complete minute.
func startsLastMinute(rates jobtable.Rates, s *genbusv1.RouteState) *uint32 {
	return &rates.Of(subject.Kind(s.GetKind()), s.GetName())[jobtable.RateMinutes-2].Started
}

// states returns the states of all configured routes, without pausers and rates.
func (p *Routes) states(ctx context.Context) ([]*genbusv1.RouteState, error) {
	all := slices.Clone(p.Config.Now().Routes)
	slices.SortFunc(all, func(a, b config.Route) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	queues := make([]*queue.Route, len(all))
	for i, r := range all {
		queues[i] = p.queue(r)
	}
	states, err := p.Queue.States(ctx, queues)
	if err != nil {
		return nil, err
	}
	out := make([]*genbusv1.RouteState, len(all))
	for i, r := range all {
		out[i] = routeState(r, states[i])
	}
	return out, nil
}

// Pause stops all replicas from submitting waiting jobs of a route until Resume. Held jobs
// continue. Pause returns once it is in effect.
func (p *Routes) Pause(ctx context.Context, kind, name string) (*genbusv1.RouteState, error) {
	return p.setPaused(ctx, kind, name, time.Now().AddDate(pausedYears, 0, 0))
}

// Resume undoes Pause.
func (p *Routes) Resume(ctx context.Context, kind, name string) (*genbusv1.RouteState, error) {
	return p.setPaused(ctx, kind, name, time.Time{})
}

func (p *Routes) setPaused(ctx context.Context, kind, name string, until time.Time) (*genbusv1.RouteState, error) {
	r, err := p.route(kind, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pauseWithin,
		errcode.New(errcode.AcceptanceUnknown, "%s route %s: not all servers applied the change within %s; list the routes, and call again", kind, name, pauseWithin))
	defer cancel()
	if err := p.queue(r).Pause(ctx, until); err != nil {
		return nil, err
	}
	return p.state(ctx, r)
}

func (p *Routes) queue(r config.Route) *queue.Route {
	return p.Queue.Route(subject.Kind(r.Kind), r.Name)
}

func (p *Routes) route(kind, name string) (config.Route, error) {
	if r, ok := p.Config.Now().RouteNamed(kind, name); ok {
		return r, nil
	}
	return config.Route{}, errcode.New(errcode.RouteNotFound, "%s route %q not found; list the routes", errcode.Clip(kind, 16), errcode.Clip(name, 64))
}

func (p *Routes) state(ctx context.Context, r config.Route) (*genbusv1.RouteState, error) {
	state, err := p.queue(r).State(ctx)
	if err != nil {
		return nil, err
	}
	out := routeState(r, state)
	if state.Paused {
		out.PausedSince, out.PausedBy = p.pausedBy(ctx, r.Kind, r.Name)
	}
	if rates, err := p.Rates.Rates(ctx); err == nil {
		out.StartsLastMinute = startsLastMinute(rates, out)
	}
	return out, nil
}

func routeState(r config.Route, s queue.State) *genbusv1.RouteState {
	out := &genbusv1.RouteState{
		Kind: r.Kind, Name: r.Name, Paused: s.Paused, Waiting: s.Waiting, InHand: s.Held, MaxInFlight: s.MaxInFlight, Draining: r.Draining,
		ReadyWindow: uint64(s.ReadyWindow), Incomplete: s.Incomplete,
	}
	if !s.Oldest.IsZero() {
		out.OldestWaiting = timestamppb.New(s.Oldest)
	}
	return out
}

// pausedBy returns the time and operator of the first pause since the last resume, according to the
// audit log.
func (p *Routes) pausedBy(ctx context.Context, kind, name string) (since *timestamppb.Timestamp, by string) {
	records, err := p.Audit.OfRoute(ctx, kind, name)
	if err != nil {
		return nil, ""
	}
	for _, a := range slices.Backward(records) {
		switch done := a.GetOutcome() == genbusv1.AuditRecord_OUTCOME_DONE; {
		case done && a.GetAction() == "ResumeRoute":
			return since, by
		case done && a.GetAction() == "PauseRoute":
			since, by = a.GetTime(), a.GetOperator()
		}
	}
	return since, by
}

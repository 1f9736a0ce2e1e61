package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
)

// A route is paused by pausing its durable consumer. JetStream then delivers the route's messages
// to no replica, until the pause ends. The pause survives restarts, and it also survives when a
// starting replica updates the consumer. (In server 2.15, creating a consumer that already exists
// keeps the existing pause_until, on one node and on three.)

const (
	// maxPause and maxReason, in characters, bound a pause and its reason.
	maxPause  = 30 * 24 * time.Hour
	maxReason = 200
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

// states returns the states of all configured routes, without rates.
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

// Pause stops all replicas from submitting waiting jobs of a route until the pause ends. Held jobs
// continue. Pause returns once it is in effect.
func (p *Routes) Pause(ctx context.Context, m *genbusv1.PauseRouteRequest, by string) (*genbusv1.RouteState, error) {
	pause := queue.Pause{Since: time.Now(), By: by, Reason: m.GetReason()}
	var wrong []errcode.Violation
	if utf8.RuneCountInString(pause.Reason) > maxReason || strings.ContainsFunc(pause.Reason, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		wrong = append(wrong, errcode.Violation{Field: "reason", Description: fmt.Sprintf("must be one line of at most %d characters", maxReason)})
	}
	if m.GetDuration() != nil {
		d := m.GetDuration().AsDuration()
		if d <= 0 || d > maxPause {
			wrong = append(wrong, errcode.Violation{Field: "duration", Description: fmt.Sprintf("must be positive and at most %dh", maxPause/time.Hour)})
		}
		pause.Until = pause.Since.Add(d)
	}
	if wrong != nil {
		return nil, errcode.Invalid(wrong)
	}
	return p.change(ctx, m.GetKind(), m.GetName(), func(ctx context.Context, r *queue.Route) error { return r.Pause(ctx, pause) })
}

// Resume ends a pause.
func (p *Routes) Resume(ctx context.Context, kind, name string) (*genbusv1.RouteState, error) {
	return p.change(ctx, kind, name, func(ctx context.Context, r *queue.Route) error { return r.Resume(ctx) })
}

func (p *Routes) change(ctx context.Context, kind, name string, change func(context.Context, *queue.Route) error) (*genbusv1.RouteState, error) {
	r, err := p.route(kind, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pauseWithin,
		errcode.New(errcode.AcceptanceUnknown, "%s route %s: not all servers applied the change within %s; list the routes, and call again", kind, name, pauseWithin))
	defer cancel()
	if err := change(ctx, p.queue(r)); err != nil {
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
	if rates, err := p.Rates.Rates(ctx); err == nil {
		out.StartsLastMinute = startsLastMinute(rates, out)
	}
	return out, nil
}

func routeState(r config.Route, s queue.State) *genbusv1.RouteState {
	return &genbusv1.RouteState{
		Kind: r.Kind, Name: r.Name, Paused: s.Pause != nil, Pause: RoutePause(s.Pause), Waiting: s.Waiting, InHand: s.Held, MaxInFlight: s.MaxInFlight, Draining: r.Draining,
		ReadyWindow: uint64(s.ReadyWindow), Incomplete: s.Incomplete, OldestWaiting: moment(s.Oldest),
	}
}

// RoutePause returns a pause for operators, or nil.
func RoutePause(p *queue.Pause) *genbusv1.RoutePause {
	if p == nil {
		return nil
	}
	return &genbusv1.RoutePause{Since: moment(p.Since), By: p.By, Reason: p.Reason, Until: moment(p.Until)}
}

// moment returns a timestamp, or nil for the zero time.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

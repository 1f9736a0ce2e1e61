package operator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// overviewEvery is how long an overview is reused. overviewPatience bounds the time to build
	// one.
	overviewEvery    = time.Second
	overviewPatience = 5 * time.Second
)

// Overview builds the data for an overview of the whole service, and for the list of what needs
// attention. It builds at most once per second, and only on demand. All callers share the result.
type Overview struct {
	shared[*facts]
	routes      *Routes
	deadLetters *deadletter.Counter
	fleet       *fleet.Member
}

// facts are the result of a build.
type facts struct {
	overview *genbusv1.GetOverviewResponse
	// err is set if routes, index and dead letters all failed.
	err      error
	replicas []*genbusv1.ReplicaState
	// noIndex is the error of the index.
	noIndex error
}

// NewOverview returns an Overview of the given parts.
func NewOverview(routes *Routes, letters *deadletter.Counter, member *fleet.Member) *Overview {
	p := &Overview{routes: routes, deadLetters: letters, fleet: member}
	p.shared = shared[*facts]{every: overviewEvery, within: overviewPatience, build: p.collect}
	return p
}

// Get returns an overview that is at most a second old and not from before the last call of
// Outdate. Callers share the overview and must not change it. Get fails if routes, index and dead
// letters all fail.
func (p *Overview) Get(ctx context.Context) (*genbusv1.GetOverviewResponse, error) {
	f, err := p.get(ctx)
	if err != nil {
		return nil, err
	}
	if f.err != nil {
		return nil, f.err
	}
	return f.overview, nil
}

// Parts that an overview can lack.
const (
	partRoutes      = "routes"
	partIndex       = "index"
	partDeadLetters = "dead_letters"
	partReplicas    = "replicas"
)

// collect builds an overview. It leaves out parts that fail and names them in Missing. It never
// fails.
func (p *Overview) collect(ctx context.Context) (*facts, error) {
	out := &genbusv1.GetOverviewResponse{AsOf: timestamppb.Now()}
	f := &facts{overview: out}
	var states []*genbusv1.RouteState
	var rates jobtable.Rates
	var noRoutes, noIndex, noLetters, noReplicas error
	var parts sync.WaitGroup
	parts.Go(func() { states, noRoutes = p.routes.states(ctx) })
	parts.Go(func() { rates, noIndex = p.routes.Rates.Rates(ctx) })
	parts.Go(func() {
		var n deadletter.Counts
		if n, noLetters = p.deadLetters.Count(ctx); noLetters == nil {
			out.DeadLetters = &genbusv1.DeadLetterCounts{OutcomeUnknown: n.OutcomeUnknown, Other: n.Other, Uncounted: n.Uncounted, Rejected: n.Rejected}
		}
	})
	parts.Go(func() {
		f.replicas, out.Silent, noReplicas = p.fleet.Ask(ctx)
		out.Replicas, out.Upstreams = uint32(len(f.replicas)), healths(f.replicas)
	})
	parts.Wait()
	if f.noIndex = noIndex; noRoutes != nil && noIndex != nil && noLetters != nil {
		f.err = noRoutes
	}
	for _, part := range []struct {
		name string
		err  error
	}{{partRoutes, noRoutes}, {partIndex, noIndex}, {partDeadLetters, noLetters}, {partReplicas, noReplicas}} {
		if part.err != nil {
			out.Missing = append(out.Missing, part.name)
		}
	}
	for _, s := range states {
		r := &genbusv1.RouteOverview{Route: s}
		if noIndex == nil {
			s.StartsLastMinute = startsLastMinute(rates, s)
			r.Minutes = minutes(rates.Of(subject.Kind(s.GetKind()), s.GetName()))
		}
		out.Routes = append(out.Routes, r)
	}
	if noIndex == nil {
		out.IndexAsOf, out.MinutesFrom = timestamppb.New(time.Unix(0, rates.AsOf)), timestamppb.New(time.Unix(0, rates.From))
		out.Unfinished = uint64(rates.Unfinished)
	}
	return f, nil
}

func minutes(of []jobtable.Minute) []*genbusv1.RouteMinute {
	out := make([]*genbusv1.RouteMinute, len(of))
	for i, m := range of {
		out[i] = &genbusv1.RouteMinute{Accepted: m.Accepted, Started: m.Started, Ended: m.Ended, Failed: m.Failed}
	}
	return out
}

// healths merges the upstreams of all replicas by name.
func healths(replicas []*genbusv1.ReplicaState) []*genbusv1.UpstreamHealth {
	of := map[string]*genbusv1.UpstreamHealth{}
	resting := map[string]map[string]bool{} // by upstream and key: whether any replica avoids the key
	for _, r := range replicas {
		for _, u := range r.GetUpstreams() {
			h := of[u.GetName()]
			if h == nil {
				h = &genbusv1.UpstreamHealth{Name: u.GetName(), Breaker: u.GetBreaker()}
				of[u.GetName()], resting[u.GetName()] = h, map[string]bool{}
			}
			addHealth(h, u)
			for _, k := range u.GetKeys() {
				keys := resting[u.GetName()]
				keys[k.GetName()] = keys[k.GetName()] || k.GetCooldownUntil() != nil || k.GetPausedUntil() != nil
			}
		}
	}
	var out []*genbusv1.UpstreamHealth
	for name, h := range of {
		h.Keys = uint32(len(resting[name]))
		for _, rests := range resting[name] {
			if rests {
				h.KeysResting++
			}
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *genbusv1.UpstreamHealth) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// badness orders the states of a breaker from good to bad.
var badness = map[genbusv1.UpstreamState_Breaker]int{
	genbusv1.UpstreamState_BREAKER_CLOSED: 1, genbusv1.UpstreamState_BREAKER_HALF_OPEN: 2, genbusv1.UpstreamState_BREAKER_OPEN: 3,
}

// addHealth merges one replica's view of an upstream.
func addHealth(h *genbusv1.UpstreamHealth, u *genbusv1.UpstreamState) {
	if badness[u.GetBreaker()] > badness[h.GetBreaker()] {
		h.Breaker = u.GetBreaker()
	}
	if badness[u.GetBreaker()] > badness[genbusv1.UpstreamState_BREAKER_CLOSED] {
		h.BreakersNotClosed++
	}
	h.Paused = h.GetPaused() || u.GetPausedUntil() != nil
	h.Calls += u.GetCalls()
	h.CallsFailed += u.GetCallsFailed()
}

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

// Overview builds the data for an overview of the whole service. It builds at most one overview per
// second, and only on demand. All callers share the result or its error.
type Overview struct {
	routes      *Routes
	deadLetters *deadletter.Counter
	fleet       *fleet.Member

	mu     sync.Mutex
	latest *snapshot
}

// snapshot is one shared overview.
type snapshot struct {
	began time.Time
	done  chan struct{} // closed once the fields below are set
	out   *genbusv1.GetOverviewResponse
	err   error
}

// NewOverview returns an Overview of the given parts.
func NewOverview(routes *Routes, letters *deadletter.Counter, member *fleet.Member) *Overview {
	return &Overview{routes: routes, deadLetters: letters, fleet: member}
}

// Get builds an overview, unless the latest one is less than a second old or still being built. It
// does not use an overview from before the last call of Outdate. Callers share the overview and
// must not change it.
func (p *Overview) Get(ctx context.Context) (*genbusv1.GetOverviewResponse, error) {
	s, first := p.join(time.Now())
	if first {
		// Other callers may wait for the same overview, so the end of this call must not stop it.
		making, cancel := context.WithTimeout(context.WithoutCancel(ctx), overviewPatience)
		s.out, s.err = p.build(making)
		cancel()
		close(s.done)
		return s.out, s.err
	}
	select {
	case <-s.done:
		return s.out, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Outdate makes the next Get build a new overview, so that an operator who has paused a route sees
// the pause.
func (p *Overview) Outdate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = nil
}

// join returns a recent snapshot or the one being built. If first is set, the caller must build it.
func (p *Overview) join(now time.Time) (s *snapshot, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s = p.latest; s != nil {
		select {
		case <-s.done:
			if now.Sub(s.began) < overviewEvery {
				return s, false
			}
		default:
			return s, false
		}
	}
	p.latest = &snapshot{began: now, done: make(chan struct{})}
	return p.latest, true
}

// Parts that an overview can lack.
const (
	partRoutes      = "routes"
	partIndex       = "index"
	partDeadLetters = "dead_letters"
	partReplicas    = "replicas"
)

// build builds an overview. It leaves out parts that fail and names them in Missing.
// It returns an error if routes, index and dead letters all fail.
func (p *Overview) build(ctx context.Context) (*genbusv1.GetOverviewResponse, error) {
	out := &genbusv1.GetOverviewResponse{AsOf: timestamppb.Now()}
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
		var replicas []*genbusv1.ReplicaState
		replicas, out.Silent, noReplicas = p.fleet.Ask(ctx)
		out.Replicas, out.Upstreams = uint32(len(replicas)), healths(replicas)
	})
	parts.Wait()
	if noRoutes != nil && noIndex != nil && noLetters != nil {
		return nil, noRoutes
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
	return out, nil
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

package operator

import (
	"cmp"
	"context"
	"slices"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fleet"
)

// Replicas asks all replicas for their states. All fields are required.
type Replicas struct{ Fleet *fleet.Member }

// List returns the states of all replicas.
func (p Replicas) List(ctx context.Context) (*genbusv1.ListReplicasResponse, error) {
	states, silent, err := p.Fleet.Ask(ctx)
	for _, s := range states {
		s.Upstreams, s.Refusals = nil, nil
	}
	return &genbusv1.ListReplicasResponse{Replicas: states, Silent: silent}, err
}

// Upstreams returns each replica's view of each upstream, sorted by upstream.
func (p Replicas) Upstreams(ctx context.Context) (*genbusv1.ListUpstreamsResponse, error) {
	states, silent, err := p.Fleet.Ask(ctx)
	out := &genbusv1.ListUpstreamsResponse{Silent: silent}
	for _, s := range states {
		for _, u := range s.GetUpstreams() {
			out.Upstreams = append(out.Upstreams, &genbusv1.UpstreamOnReplica{Replica: s.GetId(), Address: s.GetAddress(), Upstream: u})
		}
	}
	slices.SortStableFunc(out.GetUpstreams(), func(a, b *genbusv1.UpstreamOnReplica) int {
		return cmp.Compare(a.GetUpstream().GetName(), b.GetUpstream().GetName())
	})
	return out, err
}

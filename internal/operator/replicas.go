package operator

import (
	"cmp"
	"context"
	"slices"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fleet"
)

// Replicas is what operators ask all replicas. All fields are required.
type Replicas struct{ Fleet *fleet.Member }

// List says which replicas there are.
func (p Replicas) List(ctx context.Context) (*genbusv1.ListReplicasResponse, error) {
	states, silent, err := p.Fleet.Ask(ctx)
	for _, s := range states {
		s.Upstreams, s.Refusals = nil, nil
	}
	return &genbusv1.ListReplicasResponse{Replicas: states, Silent: silent}, err
}

// Upstreams is what each replica knows of each upstream, by the upstream's name.
func (p Replicas) Upstreams(ctx context.Context) (*genbusv1.ListUpstreamsResponse, error) {
	states, silent, err := p.Fleet.Ask(ctx)
	out := &genbusv1.ListUpstreamsResponse{Silent: silent}
	for _, s := range states {
		for _, u := range s.GetUpstreams() {
			out.Upstreams = append(out.Upstreams, &genbusv1.UpstreamOnReplica{Replica: s.GetId(), Upstream: u})
		}
	}
	slices.SortStableFunc(out.GetUpstreams(), func(a, b *genbusv1.UpstreamOnReplica) int {
		return cmp.Compare(a.GetUpstream().GetName(), b.GetUpstream().GetName())
	})
	return out, err
}

package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/jobtable"
)

// Tenants lists tenants. All fields are required.
type Tenants struct {
	Index  *jobindex.Index
	Config *config.Live
	Fleet  *fleet.Member
	Bodies *broker.Bodies
}

// storesAtOnce bounds the object stores that a list queries concurrently.
const storesAtOnce = 8

// List returns the tenants with the most unfinished jobs. If the index has no more tenants and no
// filter is set, List adds tenants that have only refused requests.
func (p Tenants) List(ctx context.Context, m *genbusv1.ListTenantsRequest) (*genbusv1.ListTenantsResponse, error) {
	s, err := searchOf(&genbusv1.ListJobsRequest{Kind: m.GetKind(), Route: m.GetRoute(), PageSize: m.GetPageSize()})
	if err != nil {
		return nil, err
	}
	s.ByTenant = true
	group, asking := errgroup.WithContext(ctx)
	var found jobtable.Found
	group.Go(func() (err error) {
		if found, err = p.Index.Search(asking, s); err != nil {
			return searchError(err)
		}
		return nil
	})
	var silent []*genbusv1.SilentReplica
	var refused map[string]int64
	group.Go(func() (err error) {
		refused, silent, err = p.refusals(asking)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := &genbusv1.ListTenantsResponse{Total: int64(found.Total), AsOf: timestamppb.New(time.Unix(0, found.AsOf)), CompleteSince: since(found), Silent: silent}
	tenants := found.Tenants
	if m.GetKind() == "" && m.GetRoute() == "" && len(tenants) == found.Total {
		tenants = appendRefused(tenants, refused, jobtable.PageSize(int(m.GetPageSize())))
	}
	for _, t := range tenants {
		state := &genbusv1.TenantState{
			Tenant: t.Tenant, Unfinished: int64(t.Unfinished), Queued: int64(t.Waiting), MaxJobs: int64(p.Config.LimitsOf(t.Tenant).MaxJobs),
			AcceptedLastHour: int64(t.Accepted), EndedLastHour: int64(t.Ended), FailedLastHour: int64(t.Failed),
			RefusedLastHour: refused[t.Tenant],
		}
		if t.Oldest != 0 {
			state.OldestUnfinished = timestamppb.New(time.Unix(0, t.Oldest))
		}
		out.Tenants = append(out.Tenants, state)
	}
	return out, p.addStored(ctx, out.GetTenants())
}

// addStored sets the used and maximum bytes of the tenants' object stores.
func (p Tenants) addStored(ctx context.Context, tenants []*genbusv1.TenantState) error {
	most := int64(p.Config.Now().Limits.BodiesBytes)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(storesAtOnce)
	for _, t := range tenants {
		group.Go(func() (err error) {
			t.MaxStoredBytes = most
			t.StoredBytes, err = p.Bodies.Used(ctx, t.GetTenant())
			return err
		})
	}
	return group.Wait()
}

// appendRefused appends tenants that are not in the list but had requests refused. Tenants with the
// most refusals come first. The list grows to at most size tenants.
func appendRefused(tenants []jobtable.TenantJobs, refused map[string]int64, size int) []jobtable.TenantJobs {
	rest := maps.Clone(refused)
	for _, t := range tenants {
		delete(rest, t.Tenant)
	}
	names := slices.SortedFunc(maps.Keys(rest), func(a, b string) int { return cmp.Or(cmp.Compare(rest[b], rest[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), max(size-len(tenants), 0))] {
		tenants = append(tenants, jobtable.TenantJobs{Tenant: name})
	}
	return tenants
}

// refusals returns, by tenant, the number of requests that were refused in the last hour because of
// tenant limits. Only replicas that answer are counted.
func (p Tenants) refusals(ctx context.Context) (refused map[string]int64, silent []*genbusv1.SilentReplica, err error) {
	states, silent, err := p.Fleet.Ask(ctx)
	refused = map[string]int64{}
	for _, s := range states {
		for _, r := range s.GetRefusals() {
			refused[r.GetTenant()] += int64(r.GetLastHour())
		}
	}
	return refused, silent, err
}

// Streams lists streams. The field is required.
type Streams struct{ Broker *broker.Broker }

// List returns the state of each stream.
func (p Streams) List(ctx context.Context) (*genbusv1.ListStreamsResponse, error) {
	out := &genbusv1.ListStreamsResponse{}
	infos, err := p.infos(ctx)
	for _, i := range infos {
		out.Streams = append(out.Streams, streamState(i))
	}
	return out, err
}

func (p Streams) infos(ctx context.Context) (out []*jetstream.StreamInfo, err error) {
	for _, c := range p.Broker.Streams().Configs() {
		s, err := p.Broker.Stream(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, s.CachedInfo())
	}
	return out, nil
}

func streamState(i *jetstream.StreamInfo) *genbusv1.StreamState {
	state := &genbusv1.StreamState{
		Name: i.Config.Name, Description: i.Config.Description, Messages: i.State.Msgs, MaxMessages: max(i.Config.MaxMsgs, 0),
		Bytes: i.State.Bytes, MaxBytes: max(i.Config.MaxBytes, 0), DropsOld: broker.DropsOld(i.Config),
	}
	state.Used = max(used(state.GetMessages(), state.GetMaxMessages()), used(state.GetBytes(), state.GetMaxBytes()))
	if i.State.Msgs > 0 {
		state.Oldest = timestamppb.New(i.State.FirstTime)
	}
	return state
}

// used returns the used fraction of a limit, or 0 without a limit.
func used(n uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(n) / float64(limit)
}

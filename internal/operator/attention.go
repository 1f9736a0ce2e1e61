package operator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/quota"
)

// rareEvery is how long the fill levels of tenants and streams are reused, because they take a
// search of the index and a request for each tenant. rarePatience bounds the time to read them.
const (
	rareEvery    = 10 * time.Second
	rarePatience = 5 * time.Second
)

// Attention lists what needs an operator's attention.
type Attention struct {
	overview    *Overview
	routes      *Routes
	tenants     Tenants
	streams     Streams
	log         *joblog.Capacity
	deadLetters *quota.DeadLetterQuota
	rare        shared[*fills]
}

// fills are the fill levels of tenants and streams.
type fills struct {
	tenants              []*genbusv1.TenantState
	streams              []streamFill
	noTenants, noStreams error
}

// streamFill is a stream's state, whose Used is relative to the limit at which genbus stops to use
// the stream.
type streamFill struct {
	*genbusv1.StreamState
	// history is the share of MaxAge for which the stream keeps messages.
	history float64
}

// NewAttention returns an Attention for the parts of an Operator.
func NewAttention(p *parts.Parts, o *Operator) *Attention {
	a := &Attention{overview: o.Overview, routes: o.Routes, tenants: o.Tenants, streams: o.Streams, log: p.Log.Capacity, deadLetters: p.DeadLetterQuota}
	a.rare = shared[*fills]{every: rareEvery, within: rarePatience, build: a.fill}
	return a
}

// Values of ListAttentionResponse.missing that an overview does not have.
const (
	partOrphans = "orphans"
	partTenants = "tenants"
	partStreams = "streams"
)

// List returns the list. Parts that cannot be read are named in Missing. List fails if it has no
// entries and an overview would fail.
func (p *Attention) List(ctx context.Context) (*genbusv1.ListAttentionResponse, error) {
	var f *facts
	var rare *fills
	var orphans []*genbusv1.OrphanedRoute
	var noFacts, noOrphans error
	var reads sync.WaitGroup
	reads.Go(func() { f, noFacts = p.overview.get(ctx) })
	reads.Go(func() { rare, _ = p.rare.get(ctx) }) // the errors are in rare
	reads.Go(func() { orphans, noOrphans = p.unserved(ctx) })
	reads.Wait()
	if f == nil || rare == nil {
		return nil, cmp.Or(noFacts, context.Cause(ctx))
	}
	now := time.Now()
	found := findings{facts: f, fills: rare, orphans: orphans, config: p.routes.Config.Now()}
	out := &genbusv1.ListAttentionResponse{AsOf: timestamppb.New(now), Entries: found.list(now), Missing: slices.Clone(f.overview.GetMissing())}
	if len(out.GetEntries()) == 0 && f.err != nil {
		return nil, f.err
	}
	if found.withoutIndex() { // known, and listed unless it is normal
		out.Missing = slices.DeleteFunc(out.GetMissing(), func(part string) bool { return part == partIndex })
	}
	for _, part := range []struct {
		name string
		err  error
	}{{partOrphans, noOrphans}, {partTenants, rare.noTenants}, {partStreams, rare.noStreams}} {
		if part.err != nil {
			out.Missing = append(out.Missing, part.name)
		}
	}
	return out, nil
}

// errUncounted means that this replica has not counted the jobs of unconfigured routes yet.
var errUncounted = errors.New("the jobs of unconfigured routes are not counted yet")

// unserved returns the unconfigured routes whose jobs no replica waits for, as of the last count.
// During a change of the configuration, the other replicas may serve them.
func (p *Attention) unserved(ctx context.Context) (out []*genbusv1.OrphanedRoute, err error) {
	found, known := p.routes.Queue.LatestOrphans()
	if !known {
		return nil, errUncounted
	}
	for _, r := range found {
		if p.routes.Queue.Configured(r.Kind, r.Name) { // since the count
			continue
		}
		err := p.routes.unserved(ctx, r.Kind, r.Name)
		switch {
		case err == nil:
			out = append(out, orphanedRoute(r))
		case errcode.CodeOf(err) != errcode.StillHeld:
			return nil, err
		}
	}
	return out, nil
}

// fill reads the fill levels. Its error joins those in the result.
func (p *Attention) fill(ctx context.Context) (*fills, error) {
	var out fills
	var reads sync.WaitGroup
	reads.Go(func() { out.tenants, out.noTenants = p.listTenants(ctx) })
	reads.Go(func() { out.streams, out.noStreams = p.fillStreams(ctx) })
	reads.Wait()
	return &out, errors.Join(out.noTenants, out.noStreams)
}

func (p *Attention) listTenants(ctx context.Context) ([]*genbusv1.TenantState, error) {
	if _, err := p.routes.Rates.Rates(ctx); err != nil {
		return nil, err // at once, because the list would wait for the index
	}
	out, err := p.tenants.List(ctx, &genbusv1.ListTenantsRequest{PageSize: jobtable.MaxPage})
	return out.GetTenants(), err
}

func (p *Attention) fillStreams(ctx context.Context) (out []streamFill, err error) {
	infos, err := p.streams.infos(ctx)
	if err != nil {
		return nil, err
	}
	log, err := p.log.Figures(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range infos {
		s := streamFill{streamState(i), broker.History(i)}
		switch streamWord(s.GetName()) {
		case "tasks":
			s.Used = logFill(log)
		case wordDead:
			s.Used = used(s.GetBytes(), int64(p.deadLetters.Limit(s.GetMaxBytes())))
		}
		out = append(out, s)
	}
	return out, nil
}

// logFill returns the fraction of the task log's limit for new jobs that is used or reserved. If the
// disk leaves no space below the limit, the log is full.
func logFill(f joblog.Figures) float64 {
	if f.Max > 0 && f.AdmitLimit() == 0 {
		return 1
	}
	return used(uint64(f.Used+f.Reserved+f.Granted), f.AdmitLimit())
}

// list returns all findings, worst first.
func (f findings) list(now time.Time) []*genbusv1.Attention {
	out := slices.Concat(f.notReady(), f.indexNotReady(now), f.fullStreams(), f.deadLetters(), f.openBreakers(), f.refusedKeys(),
		f.missingReplicas(), f.pausedRoutes(), f.unconfiguredRoutes(), f.tenantsAtLimit())
	slices.SortStableFunc(out, func(a, b *genbusv1.Attention) int {
		return cmp.Or(cmp.Compare(a.GetReason(), b.GetReason()), bySince(a.GetSince(), b.GetSince()), strings.Compare(a.GetSubject(), b.GetSubject()))
	})
	return out
}

// bySince orders times, unknown ones last.
func bySince(a, b *timestamppb.Timestamp) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.AsTime().Compare(b.AsTime())
}

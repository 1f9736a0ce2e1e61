package operator

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// Orphans lists the unconfigured routes that have jobs.
func (p *Routes) Orphans(ctx context.Context) ([]*genbusv1.OrphanedRoute, error) {
	found, err := p.Queue.Orphans(ctx)
	out := make([]*genbusv1.OrphanedRoute, 0, len(found))
	for _, r := range found {
		out = append(out, orphanedRoute(r))
	}
	return out, err
}

func orphanedRoute(r queue.OrphanedRoute) *genbusv1.OrphanedRoute {
	return &genbusv1.OrphanedRoute{Kind: string(r.Kind), Name: r.Name, Ready: r.Ready, Waiting: r.Backlog, Oldest: timestamppb.New(r.Oldest)}
}

// FailOrphans ends a page of the jobs of an unconfigured route.
func (p *Routes) FailOrphans(ctx context.Context, m *genbusv1.FailOrphansRequest) (*genbusv1.OrphansSettled, error) {
	kind, name := subject.Kind(m.GetKind()), m.GetName()
	switch {
	case !kind.Valid():
		return nil, wrongOrphans("kind", "must be video or chat")
	case subject.CheckToken(name) != nil:
		return nil, wrongOrphans("name", "is not a valid route name")
	case p.Table.Has(kind, name):
		return nil, wrongOrphans("name", "is a configured route, which serves its jobs")
	case !m.GetNoReplicaServesIt():
		return nil, wrongOrphans("no_replica_serves_it", "must be true: replicas that serve the route lose its jobs")
	}
	if err := p.unserved(ctx, kind, name); err != nil {
		return nil, err
	}
	settled, err := p.Ender.Fail(ctx, kind, name, m.GetPageToken())
	if errors.Is(err, queue.ErrPageToken) {
		return nil, errcode.New(errcode.InvalidPageToken, "page_token does not belong to this list; list again without it")
	}
	if err == nil && settled.GetNextPageToken() == "" {
		counting, cancel := context.WithTimeout(ctx, recountWithin)
		defer cancel()
		_, _ = p.Queue.Orphans(counting) // for the list of what needs attention; repeated each minute
	}
	return settled, err
}

// recountWithin bounds the count of the remaining jobs after a call of FailOrphans.
const recountWithin = 2 * time.Second

func wrongOrphans(field, description string) error {
	return errcode.Invalid([]errcode.Violation{{Field: field, Description: description}})
}

// unserved returns an error if a replica is waiting for the route's jobs. It does not detect
// replicas without a free slot, so the operator must confirm that no replica serves the route.
func (p *Routes) unserved(ctx context.Context, kind subject.Kind, name string) error {
	info, err := p.Queue.Route(kind, name).Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return nil
	case err != nil:
		return err
	case info.NumWaiting > 0:
		return errcode.New(errcode.StillHeld, "a replica serves %s route %s; stop it, or let it serve the jobs", kind, name)
	}
	return nil
}

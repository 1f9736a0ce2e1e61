package routes

import (
	"cmp"
	"context"
	"slices"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
)

// Models lists what the routes offer, by id: every exact name of a route, and
// every model of a route's upstream that the configuration would send to that
// route. kind is "video", "chat", or empty for both.
func (t *Table) Models(ctx context.Context, cfg *config.Config, kind string) []*genbusv1.Model {
	listed := t.UpstreamModels(ctx)
	seen := map[string]*genbusv1.Model{}
	for _, r := range cfg.Routes {
		if kind != "" && r.Kind != kind {
			continue
		}
		for _, pattern := range r.Models {
			if !strings.Contains(pattern, "*") {
				put(seen, r, upstream.Model{ID: pattern})
			}
		}
		for _, m := range listed[r.Upstream] {
			if found, ok := cfg.Route(r.Kind, m.ID); ok && found.Name == r.Name {
				put(seen, r, m)
			}
		}
	}
	out := make([]*genbusv1.Model, 0, len(seen))
	for _, m := range seen {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *genbusv1.Model) int {
		return cmp.Or(strings.Compare(a.GetId(), b.GetId()), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return out
}

// put adds a model, keeping what the upstream says over what only a pattern
// says. An upstream does not say which kind a model is, so a catch-all route of
// each kind lists it.
func put(seen map[string]*genbusv1.Model, r config.Route, m upstream.Model) {
	key := r.Kind + " " + m.ID
	if old := seen[key]; old != nil && old.GetCreated() >= m.Created {
		return
	}
	seen[key] = &genbusv1.Model{
		Id: m.ID, Kind: r.Kind, Created: m.Created, OwnedBy: cmp.Or(m.OwnedBy, r.Upstream),
		Route: r.Name, Protocol: r.Protocol,
	}
}

package core

import (
	"cmp"
	"context"
	"slices"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
)

// Models lists the models that the routes serve.
type Models struct{ routes *routes.Table }

// List returns the models of a kind by ID. An empty kind means all kinds.
func (m *Models) List(ctx context.Context, kind string) ([]*genbusv1.Model, error) {
	if kind != "" && !subject.Kind(kind).Valid() {
		return nil, errcode.Invalid([]errcode.Violation{{Field: "kind", Description: "must be video, chat or empty"}})
	}
	return m.routes.Models(ctx, kind), nil
}

// EachOnce returns each ID once, for APIs that do not distinguish kinds. An ID that a video route
// serves is listed as a video model with its protocol. A catch-all chat route may list the same ID,
// because upstreams do not report the kinds of their models.
func EachOnce(models []*genbusv1.Model) []*genbusv1.Model {
	slices.SortStableFunc(models, func(a, b *genbusv1.Model) int {
		return cmp.Or(strings.Compare(a.GetId(), b.GetId()), -strings.Compare(a.GetKind(), b.GetKind()))
	})
	return slices.CompactFunc(models, func(a, b *genbusv1.Model) bool { return a.GetId() == b.GetId() })
}

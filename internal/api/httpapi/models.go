package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// listModels serves GET /v1/models.
func (h *Handler) listModels(x *exchange) error {
	return x.json(http.StatusOK, body.ModelListJSON(h.publicModels(x)))
}

// getModel serves GET /v1/models/{model...}. A model ID may contain slashes.
func (h *Handler) getModel(x *exchange) error {
	models, id := h.publicModels(x), x.r.PathValue("model")
	i := slices.IndexFunc(models, func(m *genbusv1.Model) bool { return m.GetId() == id })
	if i < 0 {
		return errcode.New(errcode.ModelNotFound, "no route serves the model %q; see GET /v1/models", errcode.Clip(id, 128))
	}
	return x.json(http.StatusOK, body.ModelJSON(models[i]))
}

// publicModels lists each ID once because this API does not distinguish kinds. An ID that a video
// route serves is listed as a video model with its protocol. A catch-all chat route may list the
// same ID, because upstreams do not report the kinds of their models.
func (h *Handler) publicModels(x *exchange) []*genbusv1.Model {
	models := h.routeTable.Models(x.ctx(), "")
	slices.SortStableFunc(models, func(a, b *genbusv1.Model) int {
		return cmp.Or(strings.Compare(a.GetId(), b.GetId()), -strings.Compare(a.GetKind(), b.GetKind()))
	})
	return slices.CompactFunc(models, func(a, b *genbusv1.Model) bool { return a.GetId() == b.GetId() })
}

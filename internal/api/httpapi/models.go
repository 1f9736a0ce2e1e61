package httpapi

import (
	"net/http"
	"slices"

	"github.com/genbus/genbus/internal/api/core"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// listModels serves GET /v1/models.
func (h *Handler) listModels(x *exchange) error {
	models, err := h.publicModels(x)
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, body.ModelListJSON(models))
}

// getModel serves GET /v1/models/{model...}. A model ID may contain slashes.
func (h *Handler) getModel(x *exchange) error {
	models, err := h.publicModels(x)
	if err != nil {
		return err
	}
	id := x.r.PathValue("model")
	i := slices.IndexFunc(models, func(m *genbusv1.Model) bool { return m.GetId() == id })
	if i < 0 {
		return errcode.New(errcode.ModelNotFound, "no route serves the model %q; see GET /v1/models", errcode.Clip(id, 128))
	}
	return x.json(http.StatusOK, body.ModelJSON(models[i]))
}

func (h *Handler) publicModels(x *exchange) ([]*genbusv1.Model, error) {
	models, err := h.core.Models.List(x.ctx(), "")
	return core.EachOnce(models), err
}

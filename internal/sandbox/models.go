package sandbox

import (
	"net/http"
	"slices"
)

// modelIDs lists the models in the order that GET /v1/models returns them.
var modelIDs = []string{
	ModelVideo, ModelVideoEnveloped, ModelChat, ModelChatFast,
	ModelVideos, ModelVideosGateway, ModelKling, ModelKlingGateway, ModelJimeng,
}

func (s *Sandbox) listModels(w http.ResponseWriter, _ *http.Request) {
	b := []byte(`{"object":"list","data":[`)
	for i, id := range modelIDs {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendModel(b, id)
	}
	writeJSON(w, http.StatusOK, append(b, `],"success":true}`...))
}

func (s *Sandbox) getModel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if slices.Contains(modelIDs, id) {
		writeJSON(w, http.StatusOK, s.appendModel(nil, id))
		return
	}
	writeNested(w, http.StatusNotFound, apiError{
		code: "model_not_found", message: "The model '" + id + "' does not exist",
		kind: kindInvalid, param: "model",
	})
}

func (s *Sandbox) appendModel(b []byte, id string) []byte {
	b = append(b, `{"id":`...)
	b = appendJSON(b, id)
	b = append(b, `,"object":"model"`...)
	b = appendIntField(b, "created", s.start.Unix())
	return append(b, `,"owned_by":"sandbox"}`...)
}

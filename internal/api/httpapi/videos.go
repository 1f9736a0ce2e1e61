package httpapi

import (
	"net/http"

	"github.com/genbus/genbus/internal/api/core"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
)

// createVideo serves POST /v1/video/generations.
func (h *Handler) createVideo(x *exchange) error {
	raw, err := x.body()
	if err != nil {
		return err
	}
	req, err := x.request(subject.Video, body.Parse(raw))
	if err != nil {
		return err
	}
	// Models of other protocols are not available on this path.
	req.Protocol = protocol.Primary.Name
	e, err := h.core.Jobs.Submit(x.ctx(), req)
	if err != nil {
		return err
	}
	x.job(e.Job)
	return x.json(http.StatusOK, body.VideoCreatedJSON(core.VideoOf(e)))
}

// getVideo serves GET /v1/video/generations/{id}.
func (h *Handler) getVideo(x *exchange) error {
	e, err := h.core.Jobs.Get(x.ctx(), x.name(subject.Video))
	if err != nil {
		return err
	}
	x.job(e.Job)
	return x.json(http.StatusOK, body.VideoTaskJSON(x.linked(core.VideoOf(e)), h.core.Jobs.ReplacedBy(x.ctx(), e)))
}

package httpapi

import (
	"net/http"
	"strings"

	"github.com/genbus/genbus/internal/api/core"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/subject"
)

// chatCompletions serves POST /v1/chat/completions. By default, the chat runs inline on this
// connection. With an Idempotency-Key, it is a queued job, and the answer contains its reply. With
// Prefer: respond-async, it is a queued job, and the answer does not wait for the reply.
func (h *Handler) chatCompletions(x *exchange) error {
	raw, err := x.body()
	if err != nil {
		return err
	}
	req, err := x.request(subject.Chat, body.Parse(raw))
	if err != nil {
		return err
	}
	switch {
	case prefersAsync(x.r.Header["Prefer"]):
		return h.submitChat(x, req)
	case req.Body.Head().Stream:
		return x.streamChat(req)
	default:
		id, reply, err := h.core.Chats.Complete(x.ctx(), req)
		x.jobID(id)
		if err != nil {
			return err
		}
		return x.json(http.StatusOK, reply)
	}
}

// listChats serves GET /v1/chat/completions. Like OpenAI, it lists the oldest chats first by default.
func (h *Handler) listChats(x *exchange) error {
	page, err := x.page(subject.Chat, "asc")
	if err != nil {
		return err
	}
	return x.json(http.StatusOK, body.ChatPageJSON(core.ChatPage(page).GetChats(), page.NextToken != "", ""))
}

// prefersAsync reports whether the Prefer header (RFC 7240) contains respond-async.
func prefersAsync(values []string) bool {
	for _, value := range values {
		for preference := range strings.SplitSeq(value, ",") {
			token, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(token), "respond-async") {
				return true
			}
		}
	}
	return false
}

func (h *Handler) submitChat(x *exchange, req admission.Request) error {
	e, err := h.core.Jobs.Submit(x.ctx(), req)
	if err != nil {
		return err
	}
	reply, err := h.core.Chats.Reply(x.ctx(), core.ChatOf(e))
	if err != nil {
		return err
	}
	x.job(e.Job)
	x.Header().Set("Location", "/genbus/v1/chats/"+e.Job.GetId())
	x.Header().Set("Preference-Applied", "respond-async")
	return x.json(http.StatusAccepted, body.ChatJSON(core.ChatOf(e), reply, nil))
}

// streamChat sends the blocks of the reply as they arrive.
func (x *exchange) streamChat(req admission.Request) error {
	out := x.newSSE()
	defer out.stop()
	err := x.h.core.Chats.Stream(x.ctx(), req, out)
	return out.endChat(err)
}

// Job sets the job's ID in the response header, which is written with the first block or ping. A
// queued job may wait for a long time, and so may a model think, so pings keep the stream open.
func (s *sseWriter) Job(id string) {
	s.x.jobID(id)
	s.keepOpen(s.ping)
}

package httpapi

import "net/http"

// ForOperators serves job content that the gRPC services do not offer. It is for callers that
// another handler has already authenticated. The request's path contains the job ID.
type ForOperators struct{ Handler *Handler }

// Content serves GET /v1/videos/{id}/content for a tenant's job.
func (o ForOperators) Content(w http.ResponseWriter, r *http.Request, tenant string) {
	o.serve(w, r, tenant, o.Handler.getContent)
}

// ChatEvents serves GET /genbus/v1/chats/{id}/events for a tenant's chat.
func (o ForOperators) ChatEvents(w http.ResponseWriter, r *http.Request, tenant string) {
	o.serve(w, r, tenant, o.Handler.chatEvents)
}

func (o ForOperators) serve(w http.ResponseWriter, r *http.Request, tenant string, serve func(*exchange) error) {
	x := &exchange{response: o.Handler.asResponse(w, r), r: r, h: o.Handler, tenant: tenant}
	if err := serve(x); err != nil {
		x.fail(err)
	}
}

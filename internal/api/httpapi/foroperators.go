package httpapi

import "net/http"

// ForOperators are the handlers of what a job has that is not of a gRPC service, for callers
// whom another handler has let in. The id is that of the path.
type ForOperators struct{ Handler *Handler }

// Content is GET /v1/videos/{id}/content for a job of a tenant.
func (o ForOperators) Content(w http.ResponseWriter, r *http.Request, tenant string) {
	o.serve(w, r, tenant, o.Handler.getContent)
}

// ChatEvents is GET /genbus/v1/chats/{id}/events for a chat of a tenant.
func (o ForOperators) ChatEvents(w http.ResponseWriter, r *http.Request, tenant string) {
	o.serve(w, r, tenant, o.Handler.chatEvents)
}

func (o ForOperators) serve(w http.ResponseWriter, r *http.Request, tenant string, serve func(*exchange) error) {
	x := &exchange{response: o.Handler.asResponse(w, r), r: r, h: o.Handler, tenant: tenant}
	if err := serve(x); err != nil {
		x.fail(err)
	}
}

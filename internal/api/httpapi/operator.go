package httpapi

import "net/http"

// operatorPatterns are the rules of proto/genbus/v1/http.yaml that need an operator's key.
var operatorPatterns = []string{
	"GET /genbus/v1/operator/jobs",
	"GET /genbus/v1/operator/jobs/{id}",
	"POST /genbus/v1/operator/jobs/{id}/cancel",
	"DELETE /genbus/v1/operator/jobs/{id}",
	"GET /genbus/v1/operator/dead-letters",
	"GET /genbus/v1/operator/dead-letters/{sequence}",
	"DELETE /genbus/v1/operator/dead-letters/{sequence}",
	"POST /genbus/v1/operator/dead-letters/{sequence}/redrive",
	"POST /genbus/v1/operator/dead-letters/{sequence}/attach",
	"POST /genbus/v1/operator/dead-letters/{sequence}/look-up",
	"GET /genbus/v1/operator/routes",
	"POST /genbus/v1/operator/routes/{kind}/{name}/pause",
	"POST /genbus/v1/operator/routes/{kind}/{name}/resume",
	"GET /genbus/v1/operator/orphans",
	"POST /genbus/v1/operator/orphans/{kind}/{name}/fail",
	"GET /genbus/v1/operator/overview",
	"GET /genbus/v1/operator/tenants",
	"GET /genbus/v1/operator/streams",
	"GET /genbus/v1/operator/upstreams",
	"GET /genbus/v1/operator/replicas",
	"GET /genbus/v1/operator/audit",
	"POST /genbus/v1/operator/jobs/{id}/retry",
	"GET /genbus/v1/operator/jobs/{id}/bodies",
	"GET /genbus/v1/operator/operations",
	"GET /genbus/v1/operator/operations/{id}",
	"POST /genbus/v1/operator/operations",
	"POST /genbus/v1/operator/operations/{id}/stop",
}

// viaOperator is viaGateway for operators.
func (h *Handler) viaOperator(w http.ResponseWriter, r *http.Request) {
	h.forward(w, r, (*exchange).enterAsOperator)
}

// enterAsOperator is enter for an operator. The exchange has no tenant then, so no tenant's
// rate limit counts the call, and its body may be as long as one of a tenant without an
// entry in the configuration.
func (x *exchange) enterAsOperator() error {
	if _, err := x.h.core.Callers.Identify(x.byOperatorKey); err != nil {
		return err
	}
	return x.checkQuery()
}

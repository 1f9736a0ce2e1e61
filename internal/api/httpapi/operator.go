package httpapi

import "net/http"

func (h *Handler) viaOperator(w http.ResponseWriter, r *http.Request) {
	h.forward(w, r, (*exchange).enterAsOperator)
}

// enterAsOperator identifies the operator and checks the query. The exchange has no tenant, so no
// rate limit applies to the call, and only http.max_body_bytes limits its body.
func (x *exchange) enterAsOperator() error {
	if _, err := x.h.core.Callers.Identify(x.byOperatorKey); err != nil {
		return err
	}
	return x.checkQuery()
}

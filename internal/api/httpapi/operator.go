package httpapi

import "net/http"

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

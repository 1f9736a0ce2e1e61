package httpapi

// Patterns are those of every path that is mounted.
func (h *Handler) Patterns() []string { return h.mux.mounted }

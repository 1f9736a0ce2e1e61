package httpapi

// Patterns returns the patterns of all mounted paths.
func (h *Handler) Patterns() []string { return h.mux.mounted }

package httpapi

import "net/http"

// patterns is a mux that knows what is mounted on it, so that a test can hold
// every path against a rule.
type patterns struct {
	*http.ServeMux
	mounted []string
}

// Handle mounts a handler.
func (p *patterns) Handle(pattern string, h http.Handler) {
	p.mounted = append(p.mounted, pattern)
	p.ServeMux.Handle(pattern, h)
}

// HandleFunc mounts a function.
func (p *patterns) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	p.Handle(pattern, http.HandlerFunc(h))
}

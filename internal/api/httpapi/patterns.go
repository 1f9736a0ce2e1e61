package httpapi

import "net/http"

// patterns is a mux that records its patterns so that a test can check every path.
type patterns struct {
	*http.ServeMux
	mounted []string
}

func (p *patterns) Handle(pattern string, h http.Handler) {
	p.mounted = append(p.mounted, pattern)
	p.ServeMux.Handle(pattern, h)
}

func (p *patterns) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	p.Handle(pattern, http.HandlerFunc(h))
}

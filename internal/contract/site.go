package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/style"
)

// Site serves the documents and the page. It builds each on its first request and keeps it.
type Site struct {
	openAPI, asyncAPI, descriptors, page, icon http.Handler
}

// NewSite returns the site for o.
func NewSite(o Options) *Site {
	return &Site{
		openAPI: lazy(func() (*file, error) {
			raw, err := OpenAPI(o)
			return newFile("application/json", raw), err
		}),
		asyncAPI: lazy(func() (*file, error) {
			raw, err := AsyncAPI(o.Names)
			return newFile("application/json", raw), err
		}),
		descriptors: lazy(func() (*file, error) {
			raw, err := Descriptors()
			return newFile("application/protobuf", raw), err
		}),
		page: lazy(func() (*file, error) {
			html, policy, err := page()
			f := newFile("text/html; charset=utf-8", html)
			f.header.Set("Content-Security-Policy", policy)
			f.header.Set("Referrer-Policy", "no-referrer")
			return f, err
		}),
		icon: lazy(func() (*file, error) { return newFile("image/svg+xml", []byte(style.Icon)), nil }),
	}
}

// OpenAPI serves the document of the HTTP paths.
func (s *Site) OpenAPI() http.Handler { return s.openAPI }

// AsyncAPI serves the document of the NATS subjects and messages.
func (s *Site) AsyncAPI() http.Handler { return s.asyncAPI }

// Descriptors serves the Protobuf contract as a google.protobuf.FileDescriptorSet.
func (s *Site) Descriptors() http.Handler { return s.descriptors }

// Page serves the page that shows both documents. It requests them from its own folder.
func (s *Site) Page() http.Handler { return s.page }

// Icon serves the icon of the pages.
func (s *Site) Icon() http.Handler { return s.icon }

// file is a body with its headers.
type file struct {
	body   []byte
	header http.Header
}

func newFile(contentType string, body []byte) *file {
	sum := sha256.Sum256(body)
	return &file{body: body, header: http.Header{
		"Content-Type":           {contentType},
		"Cache-Control":          {"no-cache"}, // revalidate
		"Etag":                   {`"` + hex.EncodeToString(sum[:16]) + `"`},
		"X-Content-Type-Options": {"nosniff"},
	}}
}

func lazy(build func() (*file, error)) http.Handler {
	built := sync.OnceValues(build)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := built()
		if err != nil {
			errcode.From(err).WriteHTTP(w)
			return
		}
		for name, values := range f.header {
			w.Header()[name] = values
		}
		if strings.Contains(r.Header.Get("If-None-Match"), f.header.Get("Etag")) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
		_, _ = w.Write(f.body) // the client may have disconnected
	})
}

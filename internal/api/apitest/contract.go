package apitest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/api/console"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
)

// documents caches OpenAPI documents by their path segments, because hundreds of answers are
// checked against the same few documents.
var documents sync.Map

// OpenAPI returns the OpenAPI document for a configuration.
func OpenAPI(t testing.TB, cfg *config.Config) *contracttest.Document {
	t.Helper()
	key := fmt.Sprint(cfg.HTTP.Segments)
	if d, ok := documents.Load(key); ok {
		return d.(*contracttest.Document) //nolint:forcetypeassert // the map holds only documents
	}
	raw := Must[[]byte](t)(contract.OpenAPI(contract.Options{Segments: cfg.HTTP.Segments}))
	d, _ := documents.LoadOrStore(key, Must[*contracttest.Document](t)(contracttest.Load(raw)))
	return d.(*contracttest.Document) //nolint:forcetypeassert // the map holds only documents
}

// checkContract checks the status, headers, content type and body of an answer against the OpenAPI
// document.
func (w *World) checkContract(res *http.Response, body []byte) {
	w.T.Helper()
	if path := res.Request.URL.Path; path == "/" || path == "/favicon.ico" || strings.HasPrefix(path, console.Path) {
		return // web pages are not part of the document
	}
	err := OpenAPI(w.T, w.Cfg).CheckAnswer(contracttest.Answer{
		Method: res.Request.Method, Path: res.Request.URL.EscapedPath(), Status: res.StatusCode, Header: res.Header, Body: body,
	})
	if err != nil {
		w.T.Errorf("the answer is not as the document says: %v", err)
	}
}

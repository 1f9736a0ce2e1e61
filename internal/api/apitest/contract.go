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

// documents are those of the segments that tests have; hundreds of answers are
// held to the same few.
var documents sync.Map

// OpenAPI is the document that a configuration has.
func OpenAPI(t testing.TB, cfg *config.Config) *contracttest.Document {
	t.Helper()
	key := fmt.Sprint(cfg.HTTP.Segments)
	if d, ok := documents.Load(key); ok {
		return d.(*contracttest.Document) //nolint:forcetypeassert // nothing else is put there
	}
	raw := Must[[]byte](t)(contract.OpenAPI(contract.Options{Segments: cfg.HTTP.Segments}))
	d, _ := documents.LoadOrStore(key, Must[*contracttest.Document](t)(contracttest.Load(raw)))
	return d.(*contracttest.Document) //nolint:forcetypeassert // nothing else is put there
}

// checkContract holds every answer of the API that a test gets to the document: status, headers, content type and body.
func (w *World) checkContract(res *http.Response, body []byte) {
	w.T.Helper()
	if path := res.Request.URL.Path; path == "/" || strings.HasPrefix(path, console.Path) {
		return // pages for people are no part of it
	}
	err := OpenAPI(w.T, w.Cfg).CheckAnswer(contracttest.Answer{
		Method: res.Request.Method, Path: res.Request.URL.EscapedPath(), Status: res.StatusCode, Header: res.Header, Body: body,
	})
	if err != nil {
		w.T.Errorf("the answer is not as the document says: %v", err)
	}
}

package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

// TestTheLastWordsDoNotWaitForTheirEvents: two blocks and a failure come together, and the end
// is not stored, which the chat requires.
func TestTheLastWordsDoNotWaitForTheirEvents(t *testing.T) {
	t.Parallel()
	var w *world
	const words = `{"choices":[{"index":0,"delta":{"content":"last words"}}]}`
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		listen(t, w, "unused")
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: "+words+"\n\ndata: "+words+"\n\ndata: {\"error\":{\"message\":\"no\"}}\n\n")
	}))
	t.Cleanup(up.Close)
	w = newWorld(t, func(c *config.Config) {
		c.Chat.InlineEvents = config.InlineEventsRequired
		u := c.Upstreams[config.SandboxUpstream]
		u.BaseURL = up.URL
		c.Upstreams[config.SandboxUpstream] = u
	})
	s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody))
	for range 2 {
		if got := s.Next(); got.Data != words {
			t.Fatalf("%v", got)
		}
	}
	listen(t, w, w.Broker.Names().TaskPattern(), w.Broker.Names().DonePattern())
	if rest := s.Rest(); len(rest) != 1 {
		t.Errorf("the stream ends with %v", rest)
	}
	last, err := w.Broker.Last(t.Context(), w.Broker.Names().Tasks(), w.Broker.Names().DonePattern())
	if err != nil {
		t.Errorf("the end is not stored: %v, %v", last, err)
	}
}

// listen sets the subjects that the task log takes.
func listen(t *testing.T, w *world, subjects ...string) {
	t.Helper()
	s, err := w.Broker.Stream(t.Context(), w.Broker.Names().Tasks())
	if err == nil {
		c := s.CachedInfo().Config
		c.Subjects = subjects
		_, err = w.Broker.JetStream().UpdateStream(t.Context(), c)
	}
	if err != nil {
		t.Error(err)
	}
}

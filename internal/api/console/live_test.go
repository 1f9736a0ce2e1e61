package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
)

// open opens the stream of a page.
func (b *browser) open(path string) *apitest.Stream {
	b.w.T.Helper()
	return b.w.Open(b.request(http.MethodGet, path, nil, "Accept", "text/event-stream"))
}

// until reads a stream up to a page that contains all texts.
func until(t *testing.T, s *apitest.Stream, texts ...string) {
	t.Helper()
	for {
		e := s.Next()
		if e.Name == "page" && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Data, text) }) {
			return
		}
	}
}

// TestAPageIsKeptUpToDate checks that all viewers of a page get its changes until the process
// drains.
func TestAPageIsKeptUpToDate(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	b := newBrowser(w)
	id := w.CreateVideo()
	path := "/console/jobs/video/default/" + id
	first, second := b.open(path), b.open(path)
	until(t, first, ">queued<")
	until(t, second, ">queued<")
	w.StartVideo("default", id)
	until(t, first, "40 %")
	until(t, second, "40 %")
	w.Drain(nil)
	first.Rest()
	second.Rest()
}

// TestAPageThatIsOpenToOthersShowsWhatOneMay checks that viewers with different rights get
// different pages at one address.
func TestAPageThatIsOpenToOthersShowsWhatOneMay(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, withOperators)
	w.Durables()
	acts, reads := newBrowser(w).login(apitest.OperatorKey).open("/console/routes"), newBrowser(w).login(viewerKey).open("/console/routes")
	until(t, acts, `/pause"`)
	if e := reads.Next(); !strings.Contains(e.Data, "sandbox-video") || strings.Contains(e.Data, "<form") {
		t.Errorf("one who only reads gets %s", e.Data)
	}
	w.Drain(nil)
	acts.Rest()
	reads.Rest()
}

// TestAPageThatCannotBeReadStays checks that viewers of an unreadable page keep it and are told.
func TestAPageThatCannotBeReadStays(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Durables()
	s := newBrowser(w).open("/console/streams")
	until(t, s, "GENBUS_TASKS")
	if err := w.Broker.JetStream().DeleteStream(t.Context(), w.Broker.Names().Dead()); err != nil {
		t.Fatal(err)
	}
	if e := s.Next(); e.Name != "trouble" || e.Data != "" {
		t.Errorf("%q %s", e.Name, e.Data)
	}
	w.Drain(nil)
	s.Rest()
}

// TestOpenPagesAreBounded checks that one page too many is refused until another one closes.
func TestOpenPagesAreBounded(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	b := newBrowser(w)
	var streams []*apitest.Stream
	for i := range 200 {
		streams = append(streams, b.open(fmt.Sprintf("/console/streams?%d", i%3)))
	}
	if a := b.get("/console/streams", "Accept", "text/event-stream"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", a.status, a.header)
	}
	_ = streams[0].Res.Body.Close()
	w.Await("one more page", func() bool {
		res, err := w.Client.Do(b.request(http.MethodGet, "/console/streams", nil, "Accept", "text/event-stream"))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	w.Drain(nil)
}

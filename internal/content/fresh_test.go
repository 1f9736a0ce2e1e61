package content_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
)

// TestFreshContent checks that fresh content is asked for again if it is not there yet, a bounded
// number of times, and other content once.
func TestFreshContent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		early    http.HandlerFunc
		requests int // at most; fewer than 3 if the answer is final
	}{
		"not found":     {answer(404, "application/json", `{"error":{"message":"Not found"}}`), 3},
		"forbidden":     {answer(403, "application/xml", accessDenied), 3},
		"not ready":     {answer(400, "application/json", `{"error":{"code":"video_not_ready","message":"try later"}}`), 3}, // Ark
		"too early":     {answer(425, "", ""), 3},
		"accepted":      {answer(202, "", ""), 3},
		"JSON of state": {answer(200, "application/json", `{"error":{"message":"still being stored"}}`), 3},
		"gone":          {answer(410, "", ""), 1},
		"no key":        {answer(401, "", ""), 1},
		"down":          {answer(503, "", ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.use(content.Options{Again: []time.Duration{time.Millisecond, time.Millisecond}})
			early := func(times int32) http.HandlerFunc {
				var seen atomic.Int32
				return func(rw http.ResponseWriter, r *http.Request) {
					if seen.Add(1) <= times {
						c.early(rw, r)
						return
					}
					serveVideo(rw, r)
				}
			}
			w.foreign.mux.HandleFunc("/late", early(2))
			w.foreign.mux.HandleFunc("/never", early(100))
			w.own.mux.HandleFunc("/redirect", func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, w.foreign.URL+"/late", http.StatusFound)
			})
			fresh := func(url string) content.Place {
				p := w.at(url)
				p.Fresh = true
				return p
			}
			if c.requests == 3 {
				w.wantVideo(fresh(w.own.URL + "/redirect"))
			}
			before := len(w.foreign.requests())
			if _, _, err := w.open(fresh(w.foreign.URL+"/never"), content.Request{}); err == nil {
				t.Error("there was content")
			}
			if n := len(w.foreign.requests()) - before; n != c.requests {
				t.Errorf("fresh content was asked for %d times, want %d", n, c.requests)
			}
			if _, _, err := w.open(w.at(w.foreign.URL+"/never"), content.Request{}); err == nil || len(w.foreign.requests()) != before+c.requests+1 {
				t.Errorf("old content was asked for again: %v", err)
			}
		})
	}
}

// TestFreshContentOfACallerWhoLeaves checks that the wait ends with the caller.
func TestFreshContentOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.use(content.Options{Again: []time.Duration{time.Hour}})
	ctx, leave := context.WithCancel(t.Context())
	asked := make(chan struct{}, 1)
	w.foreign.mux.HandleFunc("/late", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusNotFound)
		asked <- struct{}{}
	})
	place := w.at(w.foreign.URL + "/late")
	place.Fresh = true
	opened := make(chan error, 1)
	go func() {
		_, err := w.reader.Open(ctx, place, content.Request{})
		opened <- err
	}()
	<-asked
	leave()
	if err := <-opened; errcode.CodeOf(err) != errcode.ContentExpired && errcode.CodeOf(err) != errcode.CallerGone {
		t.Errorf("got %v", err)
	}
}

// ending is a context whose deadline a test decides.
type ending struct {
	context.Context
	over chan struct{}
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestFreshContentThatIsNeverThere checks that an error says what the server answered if the time
// ends during a repeated request.
func TestFreshContentThatIsNeverThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.use(content.Options{Again: []time.Duration{time.Millisecond}})
	ctx := ending{t.Context(), make(chan struct{})}
	var seen atomic.Int32
	w.foreign.mux.HandleFunc("/late", func(rw http.ResponseWriter, r *http.Request) {
		if seen.Add(1) == 1 {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		close(ctx.over)
		<-r.Context().Done()
	})
	place := w.at(w.foreign.URL + "/late")
	place.Fresh = true
	if _, err := w.reader.Open(ctx, place, content.Request{}); errcode.CodeOf(err) != errcode.ContentExpired || seen.Load() != 2 {
		t.Errorf("after %d requests: %v", seen.Load(), err)
	}
}

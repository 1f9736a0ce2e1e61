package content_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
)

// hang sends some bytes, or not even a header, and then stalls.
func hang(header bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if header {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write(video[:1000])
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

func TestStalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, h := range []*host{w.own, w.foreign} {
		h.mux.HandleFunc("/header", hang(false))
		h.mux.HandleFunc("/body", hang(true))
		w.use(content.Options{HeaderTimeout: 50 * time.Millisecond})
		w.wantError(w.at(h.URL+"/header"+signed), errcode.ContentUnavailable, "no answer: no answer within 50ms")
		w.use(content.Options{IdleTimeout: 200 * time.Millisecond})
		_, data, err := w.open(w.at(h.URL+"/body"+signed), content.Request{})
		if len(data) > 1000 || errcode.CodeOf(err) != errcode.ContentUnavailable || errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes, %v", len(data), err)
		}
	}
}

func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := make(chan struct{})
	w.own.mux.HandleFunc("/header", func(rw http.ResponseWriter, r *http.Request) {
		close(asked)
		hang(false)(rw, r)
	})
	w.own.mux.HandleFunc("/body", hang(true))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := w.reader.Open(ctx, w.at(w.own.URL+"/header"), content.Request{}); errcode.CodeOf(err) != errcode.CallerGone {
		t.Errorf("while the header was awaited: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	f, err := w.reader.Open(ctx, w.at(w.own.URL+"/body"), content.Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Body.Close()
	if _, err := io.CopyN(io.Discard, f.Body, 1000); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := f.Body.Read(make([]byte, 1)); errcode.CodeOf(err) != errcode.CallerGone || !errors.Is(err, context.Canceled) {
		t.Errorf("while the body was read: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	f, err = w.reader.Open(ctx, w.at(w.own.URL+"/body"), content.Request{})
	if err == nil {
		_, err = io.Copy(io.Discard, f.Body)
		_ = f.Body.Close()
	}
	if errcode.CodeOf(err) != errcode.ContentUnavailable {
		t.Errorf("at the deadline: %v", err)
	}
}

// TestAnswersThatDrip checks that a slow error or a slow JSON answer is bounded by HeaderTimeout,
// while slow content is not.
func TestAnswersThatDrip(t *testing.T) {
	t.Parallel()
	drip := func(status int, kind, first string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, first)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}
	w := newWorld(t)
	w.use(content.Options{HeaderTimeout: 300 * time.Millisecond})
	w.own.mux.HandleFunc("/error", drip(500, "application/json", `{"message":`))
	w.own.mux.HandleFunc("/holder", drip(200, "application/json", `{"url":`))
	w.own.mux.HandleFunc("/untyped", drip(200, "", ""))
	// Retry, because a busy machine may not send the header in time.
	w.until("an error that drips is told", func() bool {
		_, _, err := w.open(w.at(w.own.URL+"/error"), content.Request{})
		return errcode.CodeOf(err) == errcode.ContentUnavailable && strings.Contains(err.Error(), "answered 500")
	})
	w.wantError(w.at(w.own.URL+"/holder"), errcode.ContentUnavailable, "no answer within 300ms")
	w.wantError(w.at(w.own.URL+"/untyped"), errcode.ContentUnavailable, "no answer within 300ms")

	// Content may take longer.
	w.own.mux.HandleFunc("/film", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "video/mp4")
		for i := range 10 {
			_, _ = rw.Write(video[i*10_000 : (i+1)*10_000])
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	w.until("a film that takes longer than its header may comes whole", func() bool {
		_, data, err := w.open(w.at(w.own.URL+"/film"), content.Request{})
		return err == nil && bytes.Equal(data, video)
	})
}

func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within a minute", what)
		}
	}
}

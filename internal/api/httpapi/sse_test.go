package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
)

// sinkWriter counts writes and flushes and keeps the text if body is set.
type sinkWriter struct {
	header  http.Header
	body    *strings.Builder // nil drops the text
	writes  int
	flushes int
	fail    error
}

func (w *sinkWriter) Header() http.Header { return w.header }
func (w *sinkWriter) WriteHeader(int)     {}
func (w *sinkWriter) Flush()              { w.flushes++ }

func (w *sinkWriter) Write(b []byte) (int, error) {
	w.writes++
	if w.body != nil {
		w.body.Write(b)
	}
	return len(b), w.fail
}

func newSSE(w http.ResponseWriter) *sseWriter {
	r := &http.Request{Method: http.MethodGet, Pattern: "GET /"}
	h := &Handler{cfg: config.NewLive(config.Default()), core: &core.Core{WriteTimeout: time.Minute}}
	return (&exchange{response: &response{ResponseWriter: w, r: r}, r: r, h: h}).newSSE()
}

func TestSSEFrames(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}, body: &strings.Builder{}}
	s := newSSE(w)
	defer s.stop()
	for _, b := range []string{`{"a":1}`, "two\nlines\r\nand\rmore", ""} {
		if err := s.Block([]byte(b), 0, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.event("7", "n", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := s.endChat(nil); err != nil {
		t.Fatal(err)
	}
	want := "data: {\"a\":1}\n\ndata: two\ndata: lines\ndata: and\ndata: more\n\ndata: \n\nid: 7\nevent: n\ndata: {}\n\ndata: [DONE]\n\n"
	if w.body.String() != want {
		t.Errorf("%q\nwant %q", w.body.String(), want)
	}
	if w.writes != 5 || w.flushes != 5 {
		t.Errorf("%d writes, %d flushes for 5 events", w.writes, w.flushes)
	}
}

func TestSSEBlockDoesNotAllocate(t *testing.T) {
	w := &sinkWriter{header: http.Header{}}
	s := newSSE(w)
	defer s.stop()
	block := []byte(strings.Repeat("x", 300))
	if n := testing.AllocsPerRun(1000, func() {
		if err := s.Block(block, 0, false); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a block", n)
	}
	if err := s.Block(make([]byte, 10*maxKeptBuffer), 0, false); err != nil || cap(s.buf) > maxKeptBuffer {
		t.Errorf("the stream keeps %d bytes, %v", cap(s.buf), err)
	}
}

// TestSSEFirstFailureStays checks that nothing is written after a failed write.
func TestSSEFirstFailureStays(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}, fail: errors.New("reset")}
	s := newSSE(w)
	defer s.stop()
	for range 3 {
		if err := s.Block([]byte("x"), 0, false); errcode.CodeOf(err) != errcode.CallerGone {
			t.Errorf("%v", err)
		}
	}
	if err := s.endChat(errcode.New(errcode.CallerGone, "gone")); err != nil || w.writes != 1 {
		t.Errorf("%d writes, %v", w.writes, err)
	}
}

// TestSSEErrorBeforeTheFirstEvent checks that such an error is returned, so that it can become a
// status.
func TestSSEErrorBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}}
	why := errors.New("why")
	if err := newSSE(w).endChat(why); !errors.Is(err, why) || w.writes != 0 {
		t.Errorf("%v, %d writes", err, w.writes)
	}
}

func BenchmarkSSEBlock(b *testing.B) {
	s := newSSE(&sinkWriter{header: http.Header{}})
	defer s.stop()
	block := []byte(strings.Repeat("x", 300))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Block(block, 0, false); err != nil {
			b.Fatal(err)
		}
	}
}

// TestBlocksThatComeTogetherAreOneWrite checks that blocks are combined up to a size, and that
// later events keep their order.
func TestBlocksThatComeTogetherAreOneWrite(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}, body: &strings.Builder{}}
	s := newSSE(w)
	defer s.stop()
	for _, b := range []string{"1", "2", "3"} {
		if err := s.Block([]byte(b), 0, b != "3"); err != nil {
			t.Fatal(err)
		}
	}
	if w.writes != 1 || w.flushes != 1 {
		t.Errorf("%d writes and %d flushes of three blocks", w.writes, w.flushes)
	}
	for range 3 {
		if err := s.Block([]byte(strings.Repeat("x", maxGathered/2)), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	if w.writes != 2 || w.flushes != 2 {
		t.Errorf("%d writes and %d flushes after %d bytes more", w.writes, w.flushes, 3*maxGathered/2)
	}
	s.last = time.Time{}
	s.tick()
	if body := w.body.String(); !strings.HasSuffix(body, "xx\n\n: ping\n") {
		t.Errorf("the ping does not follow the blocks: %q", body[len(body)-40:])
	}
}

// TestBlocksAreNotHeldBackForLong checks that Flush writes a block whose successor does not come.
func TestBlocksAreNotHeldBackForLong(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}, body: &strings.Builder{}}
	s := newSSE(w)
	defer s.stop()
	s.Flush()
	if err := s.Block([]byte("1"), 0, true); err != nil || w.writes != 0 {
		t.Fatalf("%d writes, %v", w.writes, err)
	}
	s.Flush()
	s.Flush()
	if w.body.String() != "data: 1\n\n" || w.writes != 1 || w.flushes != 1 {
		t.Errorf("%q in %d writes and %d flushes", w.body.String(), w.writes, w.flushes)
	}
}

// TestABlockThatWaitsIsAnswered checks that an error after a held-back block ends a stream that has
// begun.
func TestABlockThatWaitsIsAnswered(t *testing.T) {
	t.Parallel()
	w := &sinkWriter{header: http.Header{}, body: &strings.Builder{}}
	s := newSSE(w)
	if err := s.Block([]byte("1"), 0, true); err != nil {
		t.Fatal(err)
	}
	if err := s.endChat(errcode.New(errcode.UpstreamUnavailable, "no")); err != nil {
		t.Errorf("the block was not written: %v", err)
	}
	if body := w.body.String(); !strings.HasPrefix(body, "data: 1\n\ndata: {\"error\"") {
		t.Errorf("%q", body)
	}
}

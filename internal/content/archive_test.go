package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
)

// pattern generates a file of any size without holding it in memory. Each byte depends on its
// offset.
type pattern struct{ at, size int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at >= p.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.size-p.at))
	for i := range n {
		b[i] = patternAt(p.at + int64(i))
	}
	p.at += int64(n)
	return n, nil
}

func patternAt(i int64) byte { return byte(i*31 + i>>13) }

func servePattern(size int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.Copy(w, &pattern{size: size})
	}
}

func messages(t *testing.T, b *broker.Broker, tenant string) uint64 {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), "OBJ_"+b.Names().Bodies(tenant))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func TestArchive(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	w, b := newWorld(t), brokertest.Single(t)
	bodies := broker.NewBodies(b)
	w.foreign.mux.HandleFunc("/file", servePattern(size))
	w.own.mux.Handle("/base/v1/content", redirect(302, w.foreign.URL+"/file"))
	p := content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true}
	ref, kind, err := w.reader.Archive(t.Context(), p, bodies, "acme", "video_1-0", size)
	if err != nil || ref.Size != size || kind != "video/mp4" || ref.Bucket != b.Names().Bodies("acme") || !strings.HasPrefix(ref.Name, "video_1-0-") {
		t.Fatalf("got %+v, %q, %v", ref, kind, err)
	}
	sum := sha256.New()
	_, _ = io.Copy(sum, &pattern{size: size})
	if !bytes.Equal(sum.Sum(nil), ref.SHA256[:]) {
		t.Errorf("the digest is %x", ref.SHA256)
	}
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", ref.SHA256))
	for _, row := range []struct {
		q        content.Request
		from, to int64
		status   int
	}{
		{content.Request{}, 0, size, 200},
		{content.Request{Range: "bytes=16000000-16999999"}, 16000000, 17000000, 206},
		{content.Request{Range: "bytes=16000000-16000009", IfRange: etag}, 16000000, 16000010, 206},
		{content.Request{Range: "bytes=16000000-16000009", IfRange: `"other"`}, 0, size, 200},
		{content.Request{Range: "bytes=-10"}, size - 10, size, 206},
		{content.Request{Range: fmt.Sprintf("bytes=%d-", size)}, 0, 0, 416},
		{content.Request{HeadOnly: true}, 0, 0, 200},
	} {
		f, err := content.OpenArchive(t.Context(), bodies, ref, kind, row.q)
		if err != nil {
			t.Fatal(err)
		}
		same, n, err := compare(f.Body, row.from)
		if err = errors.Join(err, f.Body.Close()); err != nil || !same || n != row.to-row.from || f.Status != row.status {
			t.Errorf("%+v: got %+v with %d bytes, right %v, %v", row.q, f, n, same, err)
		}
		if row.status != 416 && (f.ETag != etag || f.Type != "video/mp4") {
			t.Errorf("%+v: got %+v", row.q, f)
		}
	}
}

// compare reports whether r yields the pattern starting at offset from, and how many bytes r has.
func compare(r io.Reader, from int64) (same bool, n int64, err error) {
	same = true
	buf := make([]byte, 64<<10)
	for {
		m, err := r.Read(buf)
		for i, c := range buf[:m] {
			same = same && c == patternAt(from+n+int64(i))
		}
		n += int64(m)
		if err == io.EOF {
			return same, n, nil
		}
		if err != nil {
			return same, n, err
		}
	}
}

func TestArchiveFailures(t *testing.T) {
	t.Parallel()
	w, b := newWorld(t), brokertest.Single(t)
	bodies := broker.NewBodies(b)
	w.own.mux.HandleFunc("/video", serveVideo)
	w.own.mux.HandleFunc("/chunked", serveChunked)
	w.own.mux.HandleFunc("/gone", answer(404, "", ""))
	w.own.mux.HandleFunc("/short", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "video/mp4")
		rw.Header().Set("Content-Length", "2000000")
		_, _ = io.Copy(rw, &pattern{size: 1_500_000})
	})
	w.foreign.mux.HandleFunc("/video", serveVideo)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		place content.Place
		limit int64
		code  errcode.Code
		cause error
	}{
		"too large, as it says": {t.Context(), w.at(w.own.URL + "/video"), 99_999, errcode.ArchiveFailed, broker.ErrBodyTooLarge},
		"too large, in the end": {t.Context(), w.at(w.own.URL + "/chunked"), 99_999, errcode.ArchiveFailed, broker.ErrBodyTooLarge},
		"gone":                  {t.Context(), w.at(w.own.URL + "/gone"), 0, errcode.ContentExpired, nil},
		"short":                 {t.Context(), w.at(w.own.URL + "/short"), 0, errcode.ContentUnavailable, io.ErrUnexpectedEOF},
		"blocked":               {t.Context(), content.Place{Endpoint: w.endpoint, URL: w.foreign.URL + "/video"}, 0, errcode.ContentBlocked, nil},
		"cancelled":             {cancelled, w.at(w.own.URL + "/video"), 0, errcode.CallerGone, context.Canceled},
	} {
		ref, _, err := w.reader.Archive(c.ctx, c.place, bodies, "acme", "x", c.limit)
		if errcode.CodeOf(err) != c.code || c.cause != nil && !errors.Is(err, c.cause) || ref != (broker.Body{}) {
			t.Errorf("%s: got %+v, %v, want %s", name, ref, err, c.code)
		}
		if n := messages(t, b, "acme"); n != 0 {
			t.Errorf("%s: %d messages stay behind", name, n)
		}
	}
	if _, kind, err := w.reader.Archive(t.Context(), w.at(w.own.URL+"/chunked"), bodies, "acme", "x", 100_000); err != nil || kind != "video/mp4" {
		t.Errorf("as large as the limit: %q, %v", kind, err)
	}
	down := broker.NewBodies(brokertest.Single(t))
	if _, _, err := w.reader.Archive(t.Context(), w.at(w.own.URL+"/video"), down, "not a bucket!", "x", 0); errcode.CodeOf(err) != errcode.ArchiveFailed {
		t.Errorf("without a store: %v", err)
	}
}

func TestLostArchive(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	bodies := broker.NewBodies(b)
	ref, err := bodies.PutStream(ctx, "acme", "x", &pattern{size: 2 << 20}, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Content archived with the type of a web page is not served as one.
	for _, kind := range []string{"text/html", "application/json", "", "image/svg+xml"} {
		f, err := content.OpenArchive(ctx, bodies, ref, kind, content.Request{HeadOnly: true})
		if err != nil || f.Type != "application/octet-stream" {
			t.Errorf("%q: got %+v, %v", kind, f, err)
		}
	}
	f, err := content.OpenArchive(ctx, bodies, ref, "video/mp4", content.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bodies.Delete(ctx, ref); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, f.Body); !errors.Is(err, broker.ErrBodyLost) || n == 2<<20 {
		t.Errorf("the deleted body ended after %d bytes with %v", n, err)
	}
	if _, err := content.OpenArchive(ctx, bodies, ref, "video/mp4", content.Request{}); errcode.CodeOf(err) != errcode.ContentExpired {
		t.Errorf("a lost body gave %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := content.OpenArchive(ended, bodies, ref, "video/mp4", content.Request{}); errcode.CodeOf(err) != errcode.BrokerUnavailable {
		t.Errorf("an ended context gave %v", err)
	}
	if !strings.HasPrefix(b.Names().Bodies("acme"), "GENBUS") {
		t.Error("the bucket has another name")
	}
}

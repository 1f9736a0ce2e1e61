package sandbox_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

// completed creates a completed task of the compatible API with the given content behaviour.
func (b bundle) completed(t *testing.T, behaviour string) (id string) {
	t.Helper()
	return b.createVideos(t, `{"model":"sandbox-videos","prompt":"p","metadata":{"sandbox":{"duration_ms":0,`+behaviour+`}}}`)
}

func TestContentPointsElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{Key: "sk-1"})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	const key = "Bearer sk-1"
	host := strings.TrimPrefix(b.URL(), "http://")
	for _, c := range []struct {
		behaviour, location, url string
	}{
		{`"content":"redirect"`, "/files/%s.mp4", ""},
		{`"content":"redirect","content_host":"localhost:9"`, "http://localhost:9/files/%s.mp4", ""},
		{`"content":"redirect","content_host":"ftp://localhost/"`, "ftp://localhost/files/%s.mp4", ""},
		{`"content":"json"`, "", "http://" + host + "/files/%s.mp4"},
		{`"content":"json","content_host":"https://cdn.example"`, "", "https://cdn.example/files/%s.mp4"},
	} {
		a := b.do(t, http.MethodPost, "/v1/videos", `{"model":"sandbox-videos","prompt":"p","metadata":{"sandbox":{"duration_ms":0,`+c.behaviour+`}}}`, "Authorization", key)
		id, _ := a.json(t)["id"].(string)
		a = b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", "", "Authorization", key)
		if c.location != "" && (a.status != http.StatusFound || a.header.Get("Location") != fmt.Sprintf(c.location, id)) {
			t.Errorf("%s: %d to %q", c.behaviour, a.status, a.header.Get("Location"))
		}
		if c.url != "" && (a.status != http.StatusOK || a.json(t)["url"] != fmt.Sprintf(c.url, id)) {
			t.Errorf("%s: %d %s", c.behaviour, a.status, a.body)
		}
		if a := b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", ""); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d without the key, want 401", c.behaviour, a.status)
		}
		if a := b.do(t, http.MethodGet, "/files/"+id+".mp4", ""); a.status != http.StatusOK || string(a.body[4:8]) != "ftyp" {
			t.Errorf("%s: the file answers %d", c.behaviour, a.status)
		}
	}
	b.do(t, http.MethodGet, "/files/task_none.mp4", "", "Authorization", key)
	if stats := b.Sandbox.Stats(); stats.Files != 6 || stats.FilesWithAuthorization != 1 {
		t.Errorf("%d files, %d with an Authorization header; want 6 and 1", stats.Files, stats.FilesWithAuthorization)
	}
}

func TestContentFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	whole := b.do(t, http.MethodGet, "/files/"+b.completed(t, `"id":"x"`)+".mp4", "").body
	for _, c := range []struct {
		behaviour   string
		status      int
		contentType string
		length      int
		err         error
	}{
		{`"content":"html"`, 200, "text/html; charset=utf-8", -1, nil},
		{`"content":"expired"`, 404, "application/json; charset=utf-8", -1, nil},
		{`"gone_after_ms":1`, 404, "application/json; charset=utf-8", -1, nil},
		{`"gone_after_ms":60000`, 206, "video/mp4", 10, nil},
		{`"content_after_ms":60000`, 404, "application/json; charset=utf-8", -1, nil},
		{`"content":"no_range"`, 200, "video/mp4", len(whole), nil},
		{`"content":"short"`, 200, "video/mp4", len(whole) / 2, io.ErrUnexpectedEOF},
		{`"content":"slow","chunk_interval_ms":0`, 206, "video/mp4", 10, nil},
	} {
		id := b.completed(t, c.behaviour)
		for _, path := range []string{"/v1/videos/" + id + "/content", "/files/" + id + ".mp4"} {
			// The file with gone_after_ms exists for a millisecond.
			a := b.do(t, http.MethodGet, path, "", "Range", "bytes=0-9")
			for c.status == http.StatusNotFound && a.status == http.StatusPartialContent {
				a = b.do(t, http.MethodGet, path, "", "Range", "bytes=0-9")
			}
			if a.status != c.status || a.header.Get("Content-Type") != c.contentType || !errors.Is(a.err, c.err) {
				t.Errorf("%s %s: %d %s, error %v", c.behaviour, path, a.status, a.header.Get("Content-Type"), a.err)
			}
			if c.length >= 0 && len(a.body) != c.length {
				t.Errorf("%s %s: %d bytes, want %d", c.behaviour, path, len(a.body), c.length)
			}
		}
	}
}

func TestContentSlow(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	path := "/files/" + b.completed(t, `"content":"slow","chunk_interval_ms":20`) + ".mp4"
	before := time.Now()
	a := b.do(t, http.MethodGet, path, "")
	if took := time.Since(before); a.err != nil || took < time.Duration(len(a.body)/256)*20*time.Millisecond {
		t.Errorf("%d bytes took %v, error %v", len(a.body), took, a.err)
	}
	// Closing the server ends a stalled download.
	path = "/files/" + b.completed(t, `"content":"slow","chunk_interval_ms":600000`) + ".mp4"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	first := make([]byte, 256)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first[4:8]) != "ftyp" {
		t.Errorf("first piece: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("%d more bytes and a good end", n)
	}
}

// TestBigContent proves that a large file is served without holding it in memory. It runs alone
// because it measures allocations.
func TestBigContent(t *testing.T) {
	const size = 2 << 30
	b := setup(t, sandbox.Options{})
	path := "/files/" + b.completed(t, `"content_bytes":`+strconv.Itoa(size)) + ".mp4"
	head := b.do(t, http.MethodHead, path, "")
	if head.status != 200 || head.header.Get("Content-Length") != strconv.Itoa(size) || head.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("HEAD: %d %v", head.status, head.header)
	}
	end := b.do(t, http.MethodGet, path, "", "Range", "bytes=-3")
	if end.status != 206 || string(end.body) != "\x00\x00\x00" || end.header.Get("Content-Range") != "bytes 2147483645-2147483647/2147483648" {
		t.Errorf("range: %d %q %s", end.status, end.body, end.header.Get("Content-Range"))
	}
	start := b.do(t, http.MethodGet, path, "", "Range", "bytes=4-3000")
	if start.status != 206 || len(start.body) != 2997 || string(start.body[:4]) != "ftyp" || start.body[2996] != 0 {
		t.Errorf("range: %d, %d bytes", start.status, len(start.body))
	}
	if few := b.do(t, http.MethodGet, "/files/"+b.completed(t, `"content_bytes":8`)+".mp4", ""); string(few.body[4:]) != "ftyp" || len(few.body) != 8 {
		t.Errorf("eight bytes: %q", few.body)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Range", "bytes=0-268435455")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(io.Discard, res.Body)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; n != 256<<20 || err != nil || grown > 4<<20 {
		t.Errorf("%d bytes with %d allocated, error %v", n, grown, err)
	}
}

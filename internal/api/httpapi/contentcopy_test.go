package httpapi_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
)

// TestContentThatBreaksOff checks that a body shorter than announced is an error by HTTP and gRPC,
// not a shorter file.
func TestContentThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"shorter than announced": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("Content-Length", strconv.Itoa(len(apitest.Film)))
			_, _ = w.Write(apitest.Film[:500])
		},
		"chunked and cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = w.Write(apitest.Film[:500])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, handler)))
			id := w.Completed(&genbusv1.Video{})
			for _, byteRange := range []string{"", "bytes=0-799"} {
				r := w.Request(http.MethodGet, apitest.ContentOf(id), "")
				if byteRange != "" {
					r.Header.Set("Range", byteRange)
				}
				data, err := w.readAll(r)
				if err == nil || !bytes.HasPrefix(apitest.Film, data) {
					t.Errorf("range %q: whole with %d bytes", byteRange, len(data))
				}
			}
			stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
				genbusv1grpc.NewVideoServiceClient(w.Dial()).DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id}))
			_, err := apitest.ReadPieces(stream)
			apitest.CheckStatus(t, err, codes.Unavailable, errcode.ContentUnavailable)
		})
	}
}

// readAll reads a whole answer. The error may come before the first byte.
func (w *world) readAll(r *http.Request) ([]byte, error) {
	res, err := w.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// archived stores a file in a tenant's object store, like the consumer.
func (w *world) archived(name string, data []byte) (*genbusv1.BlobRef, broker.Body) {
	w.T.Helper()
	ref := apitest.Must[broker.Body](w.T)(broker.NewBodies(w.Broker).Put(w.T.Context(), "default", name, data))
	blob := publisher.BlobRef(ref)
	blob.ContentType = "video/mp4"
	return blob, ref
}

// TestContentOfACopyOutlivesItsUpstream checks that a copy is served with ranges after the upstream
// is gone, and replaces an expired URL.
func TestContentOfACopyOutlivesItsUpstream(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.UpstreamAt(up))
	blob, ref := w.archived("copy", apitest.Film)
	id := w.Completed(&genbusv1.Video{Url: up.URL + "/x.mp4", ExpiresAt: timestamppb.New(time.Now().Add(-time.Minute)), Archived: blob}, &genbusv1.Video{Archived: blob})
	up.Close()
	w.checkRanges(id, `"`+hex.EncodeToString(ref.SHA256[:])+`"`, "") // a copy has no date
	if a := w.Get(apitest.ContentOf(id) + "?index=1"); a.Status != http.StatusOK || a.Body != string(apitest.Film) {
		t.Errorf("the second video: %d, %d bytes", a.Status, len(a.Body))
	}
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
		genbusv1grpc.NewVideoServiceClient(w.Dial()).DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 990}))
	if data, err := apitest.ReadPieces(stream); err != nil || string(data) != string(apitest.Film[990:]) {
		t.Errorf("gRPC: %q, %v", data, err)
	}
	v := w.Get("/v1/video/generations/" + id).JSON(t)
	if want := w.HTTP.URL + apitest.ContentOf(id); v["url"] != want || !strings.Contains(w.Get("/v1/videos/"+id).Body, want) {
		t.Errorf("the URL is %v, want %s", v["url"], want)
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	if err := broker.NewBodies(w.Broker).Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if a := w.Get(apitest.ContentOf(id)); a.Status != http.StatusNotFound || a.ErrorCode(t) != "content_expired" {
		t.Errorf("without the copy: %d %s", a.Status, a.Body)
	}
}

// TestContentOfALongFileComesInPieces checks that a gRPC download arrives in pieces and only the
// first describes the file.
func TestContentOfALongFileComesInPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := bytes.Repeat(apitest.Film, 700) // 700,000 bytes
	blob, _ := w.archived("copy", long)
	id := w.Completed(&genbusv1.Video{Archived: blob})
	client := genbusv1grpc.NewVideoServiceClient(w.Dial())
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
		client.DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 1000, Length: 600_000}))
	first := apitest.Must[*genbusv1.DownloadVideoResponse](t)(stream.Recv())
	if first.GetContentType() != "video/mp4" || first.GetSize() != 700_000 || first.GetOffset() != 1000 || len(first.GetData()) == 0 || len(first.GetData()) > 32<<10 {
		t.Errorf("first: %s, size %d, offset %d, %d bytes", first.GetContentType(), first.GetSize(), first.GetOffset(), len(first.GetData()))
	}
	rest, err := apitest.ReadPieces(stream)
	if data := append(first.GetData(), rest...); err != nil || !bytes.Equal(data, long[1000:601_000]) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	end := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 700_000}))
	if data, err := apitest.ReadPieces(end); err != nil || len(data) > 0 {
		t.Errorf("from the end: %d bytes, %v", len(data), err)
	}
	for _, bad := range []*genbusv1.DownloadVideoRequest{{Id: id, Offset: -1}, {Id: id, Length: -1}, {Id: id, Offset: 700_001}, {Id: id, Index: 1}} {
		stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), bad))
		_, err := apitest.ReadPieces(stream)
		apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	}
}

// TestContentURLs checks that results without a usable URL get a URL here, below public_url if it
// is set, and that other URLs stay.
func TestContentURLs(t *testing.T) {
	t.Parallel()
	for public, base := range map[string]string{"": "", "https://genbus.example/api/": "https://genbus.example/api"} {
		w := newWorld(t, func(c *config.Config) { c.HTTP.PublicURL = public })
		if base == "" {
			base = w.HTTP.URL
		}
		id := w.Completed(&genbusv1.Video{}, &genbusv1.Video{Url: "https://x/2.mp4"}, &genbusv1.Video{})
		videos, _ := w.Get("/v1/video/generations/" + id).JSON(t)["videos"].([]any)
		want := []string{base + apitest.ContentOf(id), "https://x/2.mp4", base + apitest.ContentOf(id) + "?index=2"}
		if len(videos) != len(want) {
			t.Fatalf("videos %v", videos)
		}
		for i, v := range videos {
			if m, _ := v.(map[string]any); m["url"] != want[i] {
				t.Errorf("video %d has the URL %v, want %s", i, m["url"], want[i])
			}
		}
		if none := w.Completed(); w.Get("/v1/video/generations/" + none).JSON(t)["url"] != base+apitest.ContentOf(none) {
			t.Errorf("a task without results has no URL")
		}
	}
}

// TestContentIsNeverActive checks that content a browser might run is served as bytes to save.
func TestContentIsNeverActive(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"image/svg+xml": "application/octet-stream", "text/javascript": "application/octet-stream", "video/webm": "video/webm",
		"video/quicktime": "video/quicktime", "": "application/octet-stream",
	} {
		up := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{said}
			_, _ = io.WriteString(w, "<svg onload=alert(1)>")
		})
		w := newWorld(t, apitest.UpstreamAt(up))
		id := w.Completed(&genbusv1.Video{})
		a := w.Get(apitest.ContentOf(id))
		if a.Status != http.StatusOK || a.Header.Get("Content-Type") != want || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment;") {
			t.Errorf("%q: %d %v", said, a.Status, a.Header)
		}
	}
}

package api_test

import (
	"bytes"
	"encoding/hex"
	"errors"
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
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
)

// TestContentThatBreaksOff: a body that ends before its announced length is an
// error to the client, by HTTP and by gRPC, and never a shorter file.
func TestContentThatBreaksOff(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"shorter than announced": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("Content-Length", strconv.Itoa(len(film)))
			_, _ = w.Write(film[:500])
		},
		"chunked and cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = w.Write(film[:500])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, upstreamAt(newHost(t, handler)))
			id := w.completed(&genbusv1.Video{})
			for _, byteRange := range []string{"", "bytes=0-799"} {
				r := w.request(http.MethodGet, contentOf(id), "")
				if byteRange != "" {
					r.Header.Set("Range", byteRange)
				}
				data, err := w.readAll(r)
				if err == nil || !bytes.HasPrefix(film, data) {
					t.Errorf("range %q: whole with %d bytes", byteRange, len(data))
				}
			}
			stream := must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
				genbusv1.NewVideoServiceClient(w.dial()).DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id}))
			_, err := readPieces(stream)
			checkStatus(t, err, codes.Unavailable, fault.ContentUnavailable)
		})
	}
}

// readAll reads an answer; its error may come before the first byte.
func (w *world) readAll(r *http.Request) ([]byte, error) {
	res, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// readPieces reads a download to its end; io.EOF is no error of it.
func readPieces(stream grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]) (data []byte, err error) {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
		data = append(data, piece.GetData()...)
	}
}

// archived puts a file into a tenant's object store, as the consumer does.
func (w *world) archived(name string, data []byte) (*genbusv1.BlobRef, broker.Body) {
	w.t.Helper()
	ref := must[broker.Body](w.t)(broker.NewBodies(w.broker).Put(w.t.Context(), "default", name, data))
	blob := publisher.BlobRef(ref)
	blob.ContentType = "video/mp4"
	return blob, ref
}

// TestContentOfACopyOutlivesItsUpstream: what was copied is served, with ranges,
// after the upstream is gone, and its URL, which has expired, is replaced.
func TestContentOfACopyOutlivesItsUpstream(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	w := newWorld(t, upstreamAt(up))
	blob, ref := w.archived("copy", film)
	id := w.completed(&genbusv1.Video{Url: up.URL + "/x.mp4", ExpiresAt: timestamppb.New(time.Now().Add(-time.Minute)), Archived: blob}, &genbusv1.Video{Archived: blob})
	up.Close()
	w.checkRanges(id, `"`+hex.EncodeToString(ref.SHA256[:])+`"`, "") // a copy has no date
	if a := w.get(contentOf(id) + "?index=1"); a.status != http.StatusOK || a.body != string(film) {
		t.Errorf("the second video: %d, %d bytes", a.status, len(a.body))
	}
	stream := must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
		genbusv1.NewVideoServiceClient(w.dial()).DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 990}))
	if data, err := readPieces(stream); err != nil || string(data) != string(film[990:]) {
		t.Errorf("gRPC: %q, %v", data, err)
	}
	v := w.get("/v1/video/generations/" + id).json(t)
	if want := w.http.URL + contentOf(id); v["url"] != want || !strings.Contains(w.get("/v1/videos/"+id).body, want) {
		t.Errorf("the URL is %v, want %s", v["url"], want)
	}
	if n := len(up.requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	if err := broker.NewBodies(w.broker).Delete(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if a := w.get(contentOf(id)); a.status != http.StatusNotFound || a.errorCode(t) != "content_expired" {
		t.Errorf("without the copy: %d %s", a.status, a.body)
	}
}

// TestContentOfALongFileComesInPieces by gRPC, each of which says nothing more
// but the first.
func TestContentOfALongFileComesInPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := bytes.Repeat(film, 700) // 700,000 bytes
	blob, _ := w.archived("copy", long)
	id := w.completed(&genbusv1.Video{Archived: blob})
	client := genbusv1.NewVideoServiceClient(w.dial())
	stream := must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(
		client.DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id, Offset: 1000, Length: 600_000}))
	first := must[*genbusv1.DownloadVideoResponse](t)(stream.Recv())
	if first.GetContentType() != "video/mp4" || first.GetSize() != 700_000 || first.GetOffset() != 1000 || len(first.GetData()) == 0 || len(first.GetData()) > 32<<10 {
		t.Errorf("first: %s, size %d, offset %d, %d bytes", first.GetContentType(), first.GetSize(), first.GetOffset(), len(first.GetData()))
	}
	rest, err := readPieces(stream)
	if data := append(first.GetData(), rest...); err != nil || !bytes.Equal(data, long[1000:601_000]) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for _, bad := range []*genbusv1.DownloadVideoRequest{{Id: id, Offset: -1}, {Id: id, Length: -1}, {Id: id, Offset: 700_000}, {Id: id, Index: 1}} {
		stream := must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), bad))
		_, err := readPieces(stream)
		checkStatus(t, err, codes.InvalidArgument, fault.InvalidRequest)
	}
}

// TestContentURLs: a result without a URL that works has the address of its
// content here, below public_url where there is one; the others keep theirs.
func TestContentURLs(t *testing.T) {
	t.Parallel()
	for public, base := range map[string]string{"": "", "https://genbus.example/api/": "https://genbus.example/api"} {
		w := newWorld(t, func(c *config.Config) { c.HTTP.PublicURL = public })
		if base == "" {
			base = w.http.URL
		}
		id := w.completed(&genbusv1.Video{}, &genbusv1.Video{Url: "https://x/2.mp4"}, &genbusv1.Video{})
		videos, _ := w.get("/v1/video/generations/" + id).json(t)["videos"].([]any)
		want := []string{base + contentOf(id), "https://x/2.mp4", base + contentOf(id) + "?index=2"}
		if len(videos) != len(want) {
			t.Fatalf("videos %v", videos)
		}
		for i, v := range videos {
			if m, _ := v.(map[string]any); m["url"] != want[i] {
				t.Errorf("video %d has the URL %v, want %s", i, m["url"], want[i])
			}
		}
		if none := w.completed(); w.get("/v1/video/generations/" + none).json(t)["url"] != base+contentOf(none) {
			t.Errorf("a task without results has no URL")
		}
	}
}

// TestContentIsNeverActive: what a browser would run is given as bytes to save.
func TestContentIsNeverActive(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"image/svg+xml": "application/octet-stream", "text/javascript": "application/octet-stream", "video/webm": "video/webm",
		"video/quicktime": "video/quicktime", "": "application/octet-stream",
	} {
		up := newHost(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{said}
			_, _ = io.WriteString(w, "<svg onload=alert(1)>")
		})
		w := newWorld(t, upstreamAt(up))
		id := w.completed(&genbusv1.Video{})
		a := w.get(contentOf(id))
		if a.status != http.StatusOK || a.header.Get("Content-Type") != want || a.header.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment;") {
			t.Errorf("%q: %d %v", said, a.status, a.header)
		}
	}
}

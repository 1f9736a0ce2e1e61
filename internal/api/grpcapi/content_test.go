package grpcapi_test

import (
	"math"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/errcode"
)

// TestDownloadsBeyondTheFile checks ranges outside the file, by gRPC and HTTP, whether or not the
// upstream tells the file's length.
func TestDownloadsBeyondTheFile(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"its length is told": apitest.ServeFilm,
		"its length is not told": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=5000-") {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			apitest.ServeFilm(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, handler)))
			id := w.Completed(&genbusv1.Video{})
			client := genbusv1grpc.NewVideoServiceClient(w.Dial())
			download := func(offset, length int64) ([]byte, error) {
				m := &genbusv1.DownloadVideoRequest{Id: id, Offset: offset, Length: length}
				return apitest.ReadPieces(apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), m)))
			}
			for _, length := range []int64{0, 1, math.MaxInt64 - 5000, math.MaxInt64 - 4999, math.MaxInt64} {
				_, err := download(5000, length)
				apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
			}
			for _, length := range []int64{998, math.MaxInt64 - 2, math.MaxInt64 - 1, math.MaxInt64} {
				if data, err := download(2, length); err != nil || string(data) != string(apitest.Film[2:]) {
					t.Errorf("length %d: %d bytes, %v", length, len(data), err)
				}
			}
			a := w.Get(apitest.ContentOf(id), "Range", "bytes=5000-")
			if a.Status != http.StatusRequestedRangeNotSatisfiable || a.Body != "" || a.Header["Content-Type"] != nil || a.Header["Content-Disposition"] != nil {
				t.Errorf("HTTP: %d %v %q", a.Status, a.Header, a.Body)
			}
		})
	}
}

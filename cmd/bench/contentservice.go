package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/test/freeport"
)

type contentService struct {
	*service
	conn   *grpc.ClientConn
	videos genbusv1grpc.VideoServiceClient
}

var bannerGRPC = regexp.MustCompile(`^\s*gRPC\s+(\S+)`)

// contentConfig returns the configuration file. It sets only addresses, a short poll interval, the
// archive and the storage that the archive needs.
func (t transfer) contentConfig(upstream, dataDir string) ([]byte, error) {
	const defaultStore = int64(16 * config.GiB)
	return yaml.Marshal(map[string]any{
		"upstreams": map[string]any{"bench": map[string]any{"base_url": upstream}},
		"routes": []any{map[string]any{
			"name": "bench", "kind": "video", "models": []string{"*"}, "upstream": "bench", "archive": t.archive,
			"poll": map[string]any{"interval": "100ms"},
		}},
		"nats": map[string]any{"listen": "127.0.0.1:0", "data_dir": dataDir, "max_store_bytes": defaultStore + 2*t.size},
		"http": map[string]any{"addr": "127.0.0.1:0"},
		"grpc": map[string]any{"addr": "127.0.0.1:0"},
		"log":  map[string]any{"format": "json"},
	})
}

func (w *workshop) startContent(ctx context.Context, t transfer, upstream string) (*contentService, error) {
	dir := filepath.Join(w.dir, t.name)
	path := filepath.Join(dir, "genbus.yaml")
	file, err := t.contentConfig(upstream, filepath.Join(dir, "data"))
	if err == nil {
		err = os.MkdirAll(dir, 0o750)
	}
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		return nil, err
	}
	s := &contentService{service: &service{http: newClient(t.parallel)}}
	env := childEnv("GENBUS_CONFIG=" + path)
	if w.Profile != "" {
		addrs, err := freeport.Addrs(1)
		if err != nil {
			return nil, err
		}
		s.pprof = "http://" + addrs[0] + "/debug/pprof/"
		env = append(env, profileVariable+"="+addrs[0])
	}
	var found []string
	if s.child, found, err = startChild(ctx, dir, t.name, []string{w.service, "serve"}, env, bannerHTTP, bannerGRPC); err != nil {
		return nil, err
	}
	s.url = found[0]
	if s.conn, err = grpc.NewClient(found[1], grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		s.service.discard()
		return nil, err
	}
	s.videos = genbusv1grpc.NewVideoServiceClient(s.conn)
	return s, nil
}

func (s *contentService) discard() {
	_ = s.conn.Close() // no more calls follow
	s.service.discard()
}

// complete creates a task with a file of size bytes and waits until it ends.
func (s *contentService) complete(ctx context.Context, size int64) (*genbusv1.VideoTask, error) {
	created, err := s.videos.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
			Model: "sandbox-video", Prompt: "a paper boat drifts down a rain-filled gutter at dusk",
			MetadataJson: fmt.Appendf(nil, `{"sandbox":{"duration_ms":1,"content_bytes":%d}}`, size),
		}},
	}})
	if err != nil {
		return nil, err
	}
	events, err := s.videos.WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: created.GetTask().GetId()})
	if err != nil {
		return nil, err
	}
	last := created.GetTask()
	for {
		e, err := events.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		last = e.GetEvent().GetTask()
	}
	if last.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(last.GetVideos()) == 0 {
		return nil, fmt.Errorf("the task ended as %s: %s", last.GetStatus(), last.GetError().GetMessage())
	}
	return last, nil
}

// get reads the first n bytes of a file over HTTP. A different length is an error.
func (s *contentService) get(ctx context.Context, address string, n, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	want := http.StatusOK
	if n < size {
		want = http.StatusPartialContent
		req.Header.Set("Range", fmt.Sprintf("bytes=0-%d", n-1))
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for the error message
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	// io.Discard would read 8 KiB at a time, and the client would become the bottleneck.
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 256<<10))
	return whole(got, n, err)
}

// download reads the first n bytes of a file over gRPC. A different length is an error.
func (s *contentService) download(ctx context.Context, id string, n int64) error {
	pieces, err := s.videos.DownloadVideo(ctx, &genbusv1.DownloadVideoRequest{Id: id, Length: n})
	if err != nil {
		return err
	}
	got := int64(0)
	for {
		piece, err := pieces.Recv()
		if errors.Is(err, io.EOF) {
			return whole(got, n, nil)
		}
		if err != nil {
			return err
		}
		got += int64(len(piece.GetData()))
	}
}

func whole(got, want int64, err error) error {
	if err == nil && got != want {
		err = errors.New("that is another length")
	}
	if err != nil {
		return fmt.Errorf("read %d of %d bytes: %w", got, want, err)
	}
	return nil
}

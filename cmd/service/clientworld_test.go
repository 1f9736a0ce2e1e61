package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
)

// clientWorld is a running service with its sandbox.
type clientWorld struct {
	*world
	up *sandbox.Server
}

// newClientWorld starts a sandbox and a service. change may modify the configuration, which already
// has the sandbox routes.
func newClientWorld(t *testing.T, o sandbox.Options, change ...func(*config.Config)) clientWorld {
	t.Helper()
	up := startSandbox(t, o)
	return clientWorld{startService(t, up.URL(), change...), up}
}

func startSandbox(t *testing.T, o sandbox.Options) *sandbox.Server {
	t.Helper()
	up, err := sandbox.Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return up
}

// startService starts a service with the sandbox at url, and all kinds of clients.
func startService(t *testing.T, url string, change ...func(*config.Config)) *world {
	t.Helper()
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = t.TempDir(), "127.0.0.1:0", false
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := service.New(ctx, cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), "test")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w := &world{Service: s, base: "http://" + s.HTTPAddr().String(), terminate: cancel}
	t.Cleanup(func() {
		w.close(t)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.connectTo(t, cmp.Or(s.NATSURL(), cfg.NATS.URL))
	return w
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	w.connectTo(t, w.NATSURL())
}

// connectTo connects the clients of a service without an embedded server.
func (w *world) connectTo(t *testing.T, natsURL string) {
	t.Helper()
	var err error
	if w.nc, err = nats.Connect(natsURL); err != nil {
		t.Fatal(err)
	}
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	if w.grpc, err = grpc.NewClient(w.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
}

func (w *world) close(t *testing.T) {
	t.Helper()
	if w.nc != nil {
		w.nc.Close()
	}
	if w.grpc != nil {
		if err := w.grpc.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// theClip returns the file of every sandbox task.
func theClip(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../internal/sandbox/video.mp4")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// download reads a URL without a key.
func download(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// await polls a condition that has no event.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, brokertest.Patience)
		}
	}
}

// frontOf starts a proxy of the sandbox at up. Tasks of the primary protocol stay in progress while
// unfinished returns true for a poll.
func frontOf(t *testing.T, up string, unfinished func(id string) bool) string {
	t.Helper()
	target, err := url.Parse(up)
	if err != nil {
		t.Fatal(err)
	}
	sandbox := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dir, id := path.Split(r.URL.Path); r.Method == http.MethodGet && dir == "/v1/video/generations/" && unfinished(id) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"task_id":%q,"status":"in_progress"}`, id)
			return
		}
		sandbox.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

func getJSON(t *testing.T, url, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
)

// fortress runs a service in its own process, so that its memory can be measured without the
// attackers.
type fortress struct {
	t          *testing.T
	http, grpc string // addresses
	nats       string
	conn       *grpc.ClientConn
	verbose    *verbose
	log        *lockedBuffer
}

// fortressConfig is the configuration file of a fortress. The environment sets the rest.
const fortressConfig = `
http: {read_header_timeout: 2s}
limits: {write_timeout: 5s}
upstreams:
  sandbox: {base_url: %q}
  verbose: {base_url: %q}
routes:
  - {name: video, kind: video, models: ["sandbox-video*"], upstream: sandbox, poll: {interval: 100ms}}
  - {name: kling, kind: video, protocol: kling, models: ["sandbox-kling*"], upstream: sandbox, poll: {interval: 100ms}}
  - {name: chat, kind: chat, models: ["*"], upstream: sandbox}
  - {name: verbose, kind: chat, models: [verbose], upstream: verbose}
`

// verbose is an upstream that answers every chat with blocks of 200 KB after a call of speak.
type verbose struct {
	url   string
	begun chan struct{}
	pace  time.Duration // between two blocks; set before begun is closed
}

// speak lets the upstream answer.
func (v *verbose) speak(pace time.Duration) {
	v.pace = pace
	close(v.begun)
}

func newVerbose(t *testing.T) *verbose {
	t.Helper()
	v := &verbose{begun: make(chan struct{})}
	block := `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 200_000) + `"}}]}` + "\n\n"
	const last = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // supported by httptest
		select {
		case <-v.begun:
		case <-r.Context().Done():
			return
		}
		pace := time.NewTicker(v.pace)
		defer pace.Stop()
		for range verboseBlocks {
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
			<-pace.C
		}
		_, _ = io.WriteString(w, last) // the caller detects a cut-off
	}))
	t.Cleanup(up.Close)
	v.url = up.URL
	return v
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	brokertest.Full(t, "attacks a service in a process of its own")
	up := startSandbox(t, sandbox.Options{VideoDuration: 50 * time.Millisecond})
	f := &fortress{t: t, http: freeAddr(t), grpc: freeAddr(t), nats: freeAddr(t), verbose: newVerbose(t), log: &lockedBuffer{}}
	dir := t.TempDir()
	file := filepath.Join(dir, "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, fortressConfig, up.URL(), f.verbose.url), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "serve")
	cmd.Env = append(os.Environ(), runAsService+"=1", "GENBUS_CONFIG="+file, "GENBUS_API_KEY="+hostileKey, "GENBUS_HTTP_ADDR="+f.http, "GENBUS_GRPC_ADDR="+f.grpc,
		"GENBUS_NATS_LISTEN="+f.nats, "GENBUS_DATA_DIR="+filepath.Join(dir, "data"), "GENBUS_NATS_SYNC_ALWAYS=false", "GENBUS_LOG_FORMAT=text", "GENBUS_LOG_LEVEL=warn", "GOGC=25")
	cmd.Stdout, cmd.Stderr = io.Discard, f.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.end(cmd) })
	await(t, "the service", func() bool { return f.get("/readyz/jobs", time.Second) == nil })
	var err error
	if f.conn, err = grpc.NewClient(f.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fortress) end(cmd *exec.Cmd) {
	if f.conn != nil {
		_ = f.conn.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		f.t.Errorf("the service has ended by itself: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		f.t.Errorf("the service ended badly: %v", err)
	}
	if f.t.Failed() {
		f.t.Logf("%.5000s", f.log.String())
	}
}

func (f *fortress) get(path string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.http+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+hostileKey)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %d %.300s", path, resp.StatusCode, body)
	}
	return err
}

// served makes one call over HTTP and one over gRPC, like an unaffected client.
func (f *fortress) served(within time.Duration) error {
	if err := f.get("/genbus/v1/videos", within); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+hostileKey), within)
	defer cancel()
	_, err := genbusv1grpc.NewVideoServiceClient(f.conn).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: videoOf("sandbox-video")})
	return err
}

func (f *fortress) metric(name string) (float64, error) {
	resp, err := http.Get("http://" + f.http + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s, status %d", name, resp.StatusCode)
}

func (f *fortress) must(name string) float64 {
	f.t.Helper()
	n, err := f.metric(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

const metricHeap, metricGoroutines = "go_memstats_heap_inuse_bytes", "go_goroutines"

// watchHeap samples the heap size until its result is called, which returns the largest growth in
// MiB.
func (f *fortress) watchHeap() (grown func() float64) {
	f.t.Helper()
	before := f.must(metricHeap)
	stop, result := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(hostilePace)
		defer tick.Stop()
		most := before
		for {
			select {
			case <-tick.C:
				if n, err := f.metric(metricHeap); err == nil { // retried at the next tick
					most = max(most, n)
				}
			case <-stop:
				result <- (most - before) / (1 << 20)
				return
			}
		}
	}()
	return func() float64 { close(stop); return <-result }
}

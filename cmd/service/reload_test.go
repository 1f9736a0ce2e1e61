package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// reloadWorld is a running service with a configuration file.
type reloadWorld struct {
	*world
	up   *sandbox.Server
	file string
	data string // directory of the embedded server
	logs *lockedBuffer
}

// reloadHead is the part of the configuration that stays the same. Tests append their own keys.
const reloadHead = `
nats: {listen: '127.0.0.1:0', sync_always: false, data_dir: %q}
http: {addr: '127.0.0.1:0'}
grpc: {addr: '127.0.0.1:0'}
upstreams: {up: {base_url: %q}}
`

func newReloadWorld(t *testing.T, o sandbox.Options, text string) *reloadWorld {
	t.Helper()
	w := &reloadWorld{up: startSandbox(t, o), file: filepath.Join(t.TempDir(), "genbus.yaml"), logs: &lockedBuffer{}}
	w.data = t.TempDir()
	w.write(t, fmt.Sprintf(reloadHead, w.data, w.up.URL())+text)
	source := config.Source{File: w.file}
	cfg, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := service.New(ctx, cfg, slog.New(slog.NewTextHandler(w.logs, nil)), "test")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.ReloadOn(nil, source)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.world = &world{Service: s, base: "http://" + s.HTTPAddr().String(), terminate: cancel}
	t.Cleanup(func() {
		w.close(t)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.connect(t)
	return w
}

func (w *reloadWorld) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// with reloads with text appended to the head, like the signal.
func (w *reloadWorld) with(t *testing.T, text string) error {
	t.Helper()
	w.write(t, fmt.Sprintf(reloadHead, w.data, w.up.URL())+text)
	return w.Reload(t.Context())
}

func (w *reloadWorld) mustReload(t *testing.T, text string) {
	t.Helper()
	if err := w.with(t, text); err != nil {
		t.Fatal(err)
	}
}

func (w *reloadWorld) wantLogged(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(w.logs.String(), text) {
			t.Errorf("the log has no %s:\n%s", text, w.logs.String())
		}
	}
}

func (w *reloadWorld) counted(t *testing.T, outcome telemetry.ReloadOutcome, n int) {
	t.Helper()
	if _, text := getJSON(t, w.base+"/metrics", ""); !strings.Contains(text, fmt.Sprintf("genbus_config_reloads_total{outcome=%q} %d\n", outcome, n)) {
		t.Errorf("not %d reloads were %s", n, outcome)
	}
}

const (
	reloadVideo = "{name: v, kind: video, upstream: up, models: [video-one], upstream_model: sandbox-video, poll: {interval: 100ms}, ack_wait: 3s, max_in_flight: %d}"
	reloadChat  = "{name: c, kind: chat, upstream: up, models: [chat-one], upstream_model: sandbox-chat}"
	aCat        = `{"model":"video-one","prompt":"a cat"}`
)

func reloadRoutes(routes ...string) string { return "routes: [" + strings.Join(routes, ", ") + "]\n" }

// events follows a task over SSE until the stream ends.
func (w *reloadWorld) events(t *testing.T, id, key string) (first string, rest func() string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+"/v1/video/generations/"+id+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	first, err = lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return first, func() string {
		text, err := io.ReadAll(lines)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

// TestReloadKeys proves that a new key works, the replaced key is refused, and a stream opened with
// the replaced key continues to its end.
func TestReloadKeys(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	rotate := func(to string) {
		if err := os.WriteFile(key, []byte(to+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("gb_old-0123456789abcdef")
	text := reloadRoutes(fmt.Sprintf(reloadVideo, 5)) + "api_keys: [{tenant: acme, key_file: " + key + "}]\n"
	w := newReloadWorld(t, sandbox.Options{VideoDuration: 1500 * time.Millisecond}, text)
	use := func(key string, want int) map[string]any {
		t.Helper()
		status, answer := w.post(t, "/v1/video/generations", aCat, "Authorization", "Bearer "+key)
		if status != want {
			t.Fatalf("%d, want %d: %v", status, want, answer)
		}
		return answer
	}
	id, _ := use("gb_old-0123456789abcdef", http.StatusOK)["task_id"].(string)
	_, rest := w.events(t, id, "gb_old-0123456789abcdef")
	rotate("gb_new-0123456789abcdef")
	w.mustReload(t, text)
	use("gb_new-0123456789abcdef", http.StatusOK)
	use("gb_old-0123456789abcdef", http.StatusUnauthorized)
	if got := rest(); !strings.Contains(got, "completed") {
		t.Errorf("the stream of the old key did not go on:\n%s", got)
	}
	w.wantLogged(t, `msg="reloaded configuration"`, `changed="[API key of tenant acme (file `+key+`) (key)]"`)
	if strings.Contains(w.logs.String(), "0123456789abcdef") {
		t.Error("the log has a key")
	}
	w.counted(t, telemetry.ReloadApplied, 1)
}

// TestReloadLimitsOfTenants proves that new limits apply to the next request.
func TestReloadLimitsOfTenants(t *testing.T) {
	t.Parallel()
	text := reloadRoutes(fmt.Sprintf(reloadVideo, 5))
	w := newReloadWorld(t, sandbox.Options{VideoDuration: time.Minute}, text+"limits: {tenant: {max_jobs: 1}}\n")
	create := func(want int) {
		t.Helper()
		if status, answer := w.post(t, "/v1/video/generations", aCat); status != want {
			t.Fatalf("%d, want %d: %v", status, want, answer)
		}
	}
	create(http.StatusOK)
	await(t, "the job counts", func() bool {
		status, _ := w.post(t, "/v1/video/generations", aCat)
		return status == http.StatusTooManyRequests
	})
	w.mustReload(t, text+"tenants: {default: {requests_per_second: 0.001, burst: 1}}\n")
	create(http.StatusOK)
	create(http.StatusTooManyRequests)
	w.mustReload(t, text)
	create(http.StatusOK)
	w.wantLogged(t, `added="[tenant default]"`, `changed=[limits.tenant.max_jobs]`, `removed="[tenant default]"`)
}

func (w *reloadWorld) durable(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := w.js.Consumer(t.Context(), w.Names().Work(), subject.WorkDurable(subject.Video, "v"))
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}

// TestReloadLimitOfARoute proves that a route's limit can grow and shrink, and that each job is
// submitted once and ends.
func TestReloadLimitOfARoute(t *testing.T) {
	t.Parallel()
	w := newReloadWorld(t, sandbox.Options{VideoDuration: 50 * time.Millisecond}, reloadRoutes(fmt.Sprintf(reloadVideo, 1)))
	ends := make(chan struct{}) // closed to answer polls
	w.up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodGet {
			select {
			case <-ends:
			case <-r.Context().Done():
			}
		}
		return nil
	})
	ids := make([]string, 4)
	for i := range ids {
		ids[i] = w.createVideo(t, aCat)
	}
	await(t, "one job is in work", func() bool { return w.up.Sandbox.Stats().Creates == 1 })
	w.mustReload(t, reloadRoutes(fmt.Sprintf(reloadVideo, 3)))
	await(t, "three jobs are in work", func() bool { return w.up.Sandbox.Stats().Creates == 3 })
	if d := w.durable(t); d.Config.MaxAckPending != 3 || d.NumAckPending > 3 {
		t.Errorf("%d of %d", d.NumAckPending, d.Config.MaxAckPending)
	}
	w.mustReload(t, reloadRoutes(fmt.Sprintf(reloadVideo, 1)))
	close(ends)
	for _, id := range ids {
		if got := w.ended(t, id); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
			t.Errorf("%s is %s", id, got.GetStatus())
		}
	}
	if s := w.up.Sandbox.Stats(); s.Creates != 4 || s.MaxCreatesPerKey != 1 {
		t.Errorf("%d creates, %d of one job", s.Creates, s.MaxCreatesPerKey)
	}
	w.wantLogged(t, `changed="[route v (video) (max_in_flight)]"`)
}

// TestReloadRefusesOtherRoutes proves that a reload that adds or removes a route is refused with
// the name of the route, changes nothing, and does not disturb running jobs.
func TestReloadRefusesOtherRoutes(t *testing.T) {
	t.Parallel()
	w := newReloadWorld(t, sandbox.Options{VideoDuration: time.Second}, reloadRoutes(fmt.Sprintf(reloadVideo, 5), reloadChat))
	id := w.createVideo(t, aCat)
	await(t, "the job is in work", func() bool { return w.up.Sandbox.Stats().Creates == 1 })
	for text, want := range map[string]string{
		reloadRoutes(reloadChat): "route v (video) is gone",
		reloadRoutes(fmt.Sprintf(reloadVideo, 5), reloadChat, "{name: two, kind: chat, upstream: up, models: [chat-two]}"): "route two (chat) is new",
	} {
		err := w.with(t, text+"tenants: {default: {max_jobs: 1}}\n")
		if err == nil || !strings.Contains(err.Error(), want+"; restart the replicas one by one") {
			t.Errorf("%q: %v", want, err)
		}
	}
	if status, answer := w.post(t, "/v1/video/generations", aCat); status != http.StatusOK {
		t.Errorf("a refused reload has changed something: %d %v", status, answer)
	}
	if got := w.ended(t, id); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
		t.Errorf("the job is %s: %s", got.GetStatus(), got.GetError().GetCode())
	}
	w.wantLogged(t, `level=ERROR msg="could not reload configuration, nothing changed"`)
	w.counted(t, telemetry.ReloadRefused, 2)
}

// TestReloadDrainsARoute proves that a draining route refuses new jobs and finishes its own, and
// that draining can be undone.
func TestReloadDrainsARoute(t *testing.T) {
	t.Parallel()
	w := newReloadWorld(t, sandbox.Options{VideoDuration: time.Second}, reloadRoutes(fmt.Sprintf(reloadVideo, 5)))
	id := w.createVideo(t, aCat)
	draining := strings.Replace(fmt.Sprintf(reloadVideo, 5), "max_in_flight: 5", "max_in_flight: 5, draining: true", 1)
	w.mustReload(t, reloadRoutes(draining))
	if status, answer := w.post(t, "/v1/video/generations", aCat); status != http.StatusNotFound {
		t.Errorf("a draining route: %d %v", status, answer)
	}
	if got := w.ended(t, id); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
		t.Errorf("the job is %s: %s", got.GetStatus(), got.GetError().GetCode())
	}
	w.mustReload(t, reloadRoutes(fmt.Sprintf(reloadVideo, 5)))
	if got := w.ended(t, w.createVideo(t, aCat)); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
		t.Errorf("a job afterwards is %s", got.GetStatus())
	}
}

// TestReloadRefusesWhatIsWrong proves that an invalid configuration changes nothing.
func TestReloadRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newReloadWorld(t, sandbox.Options{VideoDuration: 50 * time.Millisecond}, reloadRoutes(fmt.Sprintf(reloadVideo, 5)))
	for _, text := range []string{
		"routes: [{name: x, kind: chat, upstream: gone, models: [m]}]\n",
		reloadRoutes(reloadChat) + "api_kyes: []\n",
		reloadRoutes(reloadChat) + "api_keys: [{tenant: acme, key_file: /no/such/file}]\n",
	} {
		if err := w.with(t, text); err == nil || !strings.Contains(err.Error(), "genbus.yaml:6") && !strings.Contains(err.Error(), "genbus.yaml:7") {
			t.Errorf("%v", err)
		}
	}
	if got := w.ended(t, w.createVideo(t, aCat)); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
		t.Errorf("a job is %s", got.GetStatus())
	}
	w.wantLogged(t, "api_kyes is not a known key; did you mean api_keys?")
	w.counted(t, telemetry.ReloadRefused, 3)
}

// TestASmallLogIsWarnedOf proves that a job log that is too small logs a warning at startup and on
// reload, and does not stop jobs.
func TestASmallLogIsWarnedOf(t *testing.T) {
	t.Parallel()
	const warning = `level=WARN msg="task log too small for max_in_flight of all routes" field=nats.streams.tasks.max_bytes max_bytes=4294967296 `
	w := newReloadWorld(t, sandbox.Options{VideoDuration: 50 * time.Millisecond}, reloadRoutes(fmt.Sprintf(reloadVideo, 300_000)))
	w.wantLogged(t, warning+"want=4608000000 in_flight=300000")
	if got := w.ended(t, w.createVideo(t, aCat)); got.GetStatus().String() != "JOB_STATUS_COMPLETED" {
		t.Errorf("a job is %s", got.GetStatus())
	}
	w.mustReload(t, reloadRoutes(fmt.Sprintf(reloadVideo, 400_000)))
	w.wantLogged(t, warning+"want=6144000000 in_flight=400000")
	w.mustReload(t, reloadRoutes(fmt.Sprintf(reloadVideo, 1)))
	if n := strings.Count(w.logs.String(), warning); n != 2 {
		t.Errorf("%d warnings", n)
	}
}

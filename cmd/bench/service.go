package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/test/freeport"
)

// serviceSetup contains the settings that a measurement changes. All others keep their defaults.
type serviceSetup struct {
	Upstream     string
	Kind         string // of the routes
	Routes       int    // 0 for one route that serves every model
	NATS         string // URL of an external server; empty for an embedded one
	Copies       int    // of each stream, on an external server; 0 means one
	SyncAlways   bool
	InFlight     int
	Queued       int
	Ready        int // ready_jobs; 0 for the default
	Poll         time.Duration
	Jitter       float64
	AckWait      time.Duration // 0 for the default
	InlineEvents string        // empty for off
}

// tasksBytes returns enough bytes for the jobs in flight. They need their events so far and the 12
// KiB that the service reserves for each.
func (s serviceSetup) tasksBytes() int64 { return max(4<<30, (32<<10)*int64(s.InFlight)) }

func (s serviceSetup) yaml(dataDir string) ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"upstreams": map[string]any{"bench": map[string]any{"base_url": s.Upstream, "max_idle_conns": 1024}},
		"routes":    s.routes(),
		"nats":      s.nats(dataDir),
		"http":      map[string]any{"addr": "127.0.0.1:0"},
		"grpc":      map[string]any{"addr": "127.0.0.1:0"},
		"log":       map[string]any{"format": "json"},
		"chat":      map[string]any{"inline_events": cmp.Or(s.InlineEvents, config.InlineEventsOff)},
	})
}

func (s serviceSetup) routes() (routes []any) {
	if s.Routes == 0 {
		return []any{s.route("bench", "*")}
	}
	for i := range s.Routes {
		routes = append(routes, s.route(fmt.Sprintf("bench-%d", i), fmt.Sprintf("model-%d", i)))
	}
	return routes
}

func (s serviceSetup) route(name, model string) map[string]any {
	route := map[string]any{
		"name": name, "kind": s.Kind, "models": []string{model}, "upstream": "bench",
		"max_in_flight": s.InFlight, "max_queued": s.Queued,
	}
	if s.Ready > 0 {
		route["ready_jobs"] = s.Ready
	}
	if s.AckWait > 0 {
		route["ack_wait"] = s.AckWait.String()
	}
	if s.Kind == "video" {
		route["poll"] = map[string]any{"interval": s.Poll.String(), "jitter": s.Jitter}
	}
	return route
}

func (s serviceSetup) nats(dataDir string) map[string]any {
	const inbox, dead = 4 << 30, 1 << 30
	n := map[string]any{
		"streams": map[string]any{
			"requests": map[string]any{"max_bytes": inbox},
			"tasks":    map[string]any{"max_bytes": s.tasksBytes()},
			"dead":     map[string]any{"max_bytes": dead},
		},
	}
	if s.NATS != "" {
		n["url"], n["replicas"] = s.NATS, max(1, s.Copies)
		return n
	}
	n["listen"], n["data_dir"], n["sync_always"] = "127.0.0.1:0", dataDir, s.SyncAlways
	n["max_store_bytes"] = s.tasksBytes() + inbox + dead + 2<<30
	return n
}

type service struct {
	*child
	url   string // HTTP
	nats  string
	pprof string // empty unless built for profiling
	http  *http.Client
}

var (
	bannerHTTP    = regexp.MustCompile(`^\s*HTTP\s+(http://\S+)`)
	bannerNATS    = regexp.MustCompile(`^\s*NATS\s+(nats://\S+)`)
	bannerSandbox = regexp.MustCompile(`listens on (http://[^\s;]+)`)
)

func (w *workshop) startService(ctx context.Context, name string, setup serviceSetup) (*service, error) {
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	file, err := setup.yaml(filepath.Join(dir, "data"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "genbus.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return nil, err
	}
	s := &service{http: newClient(4)}
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
	if s.child, found, err = startChild(ctx, dir, name, []string{w.service, "serve"}, env, bannerHTTP, bannerNATS); err != nil {
		return nil, err
	}
	s.url, s.nats = found[0], found[1]
	return s, nil
}

// startSandbox starts the sandbox in its own process.
func (w *workshop) startSandbox(ctx context.Context) (*child, string, error) {
	c, found, err := startChild(ctx, w.dir, "sandbox", []string{w.service, "sandbox"},
		childEnv("GENBUS_SANDBOX_ADDR=127.0.0.1:0"), bannerSandbox)
	if err != nil {
		return nil, "", err
	}
	return c, found[0], nil
}

func (s *service) metrics(ctx context.Context) (metrics, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return scrape(ctx, s.http, s.url)
}

// discard stops the service. Its data is not needed.
func (s *service) discard() {
	s.http.CloseIdleConnections()
	s.kill()
}

// newClient returns an HTTP client for loopback that keeps conns idle connections.
func newClient(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: conns, MaxIdleConnsPerHost: conns, DisableCompression: true, IdleConnTimeout: time.Minute,
	}}
}

// profile saves a CPU profile over d, and then a heap profile. Without --profile it only waits.
func (w *workshop) profile(ctx context.Context, s *service, name string, d time.Duration) error {
	if s.pprof == "" {
		return pause(ctx, d)
	}
	seconds := max(1, int(d.Seconds()))
	if err := w.save(ctx, s, fmt.Sprintf("profile?seconds=%d", seconds), name+".cpu.pprof"); err != nil {
		return err
	}
	return w.save(ctx, s, "heap", name+".heap.pprof")
}

func (w *workshop) save(ctx context.Context, s *service, what, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.pprof+what, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: status %d: %w", resp.StatusCode, err)
	}
	path := filepath.Join(w.Profile, name)
	progressf("profile: %s", path)
	return os.WriteFile(path, b, 0o600)
}

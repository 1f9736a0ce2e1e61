package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/test/freeport"
)

// BenchmarkAccept measures the time until a video requested over HTTP is accepted, for each kind of
// storage. Only one video is submitted to the upstream. Service, NATS servers and clients share the
// process. docs/performance.md quotes the results.
func BenchmarkAccept(b *testing.B) {
	for _, mode := range []struct {
		name    string
		servers int // 0 for an embedded server
		sync    bool
		keep    bool // keep requests
	}{
		{"embedded/sync", 0, true, false}, {"embedded/sync/kept", 0, true, true}, {"embedded/no-sync", 0, false, false},
		{"three/sync", 3, true, false}, {"three/sync/kept", 3, true, true}, {"three/no-sync", 3, false, false},
	} {
		b.Run(mode.name, func(b *testing.B) {
			base := startAccepting(b, func(c *config.Config) {
				c.NATS.SyncAlways = mode.sync
				for i := range c.Routes {
					c.Routes[i].KeepRequests = mode.keep
				}
				if mode.servers > 0 {
					c.NATS.URL, c.NATS.Replicas = startServers(b, mode.servers, mode.sync), mode.servers
				}
			})
			for _, clients := range []int{1, 64} {
				b.Run("clients="+strconv.Itoa(clients), func(b *testing.B) { benchAccept(b, base, clients) })
			}
		})
	}
}

func benchAccept(b *testing.B, base string, clients int) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var mu sync.Mutex
	var took []time.Duration
	loop := func(next func() bool) {
		var mine []time.Duration
		for next() {
			begin := time.Now()
			resp, err := client.Post(base+"/v1/video/generations", "application/json", strings.NewReader(`{"model":"sandbox-video","prompt":"a cat"}`))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusOK {
				b.Errorf("%v %v", resp, err)
				return
			}
			mine = append(mine, time.Since(begin))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, mine...)
	}
	if clients == 1 {
		loop(b.Loop)
	} else {
		b.SetParallelism(clients / runtime.GOMAXPROCS(0))
		b.RunParallel(func(pb *testing.PB) { loop(pb.Next) })
	}
	slices.Sort(took)
	ms := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "accepted/s")
}

// startAccepting starts a service whose routes have one slot in flight.
func startAccepting(b *testing.B, change func(*config.Config)) (base string) {
	b.Helper()
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = up.Close() })
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen = b.TempDir(), config.ListenNone
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if err := cfg.AddSandbox(up.URL()); err != nil {
		b.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].MaxInFlight, cfg.Routes[i].MaxQueued = 1, 1_000_000
	}
	change(cfg)
	if err := cfg.Prepare(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	s, err := service.New(ctx, cfg, slog.New(slog.DiscardHandler), "test")
	if err != nil {
		cancel()
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return "http://" + s.HTTPAddr().String()
}

// startServers starts a cluster and returns its client URLs.
func startServers(b *testing.B, n int, syncAlways bool) string {
	b.Helper()
	ports, err := freeport.Ports(n)
	if err != nil {
		b.Fatal(err)
	}
	var routes, urls []string
	for _, port := range ports {
		routes = append(routes, "nats://127.0.0.1:"+strconv.Itoa(port))
	}
	servers := make([]*server.Server, n)
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: "n" + strconv.Itoa(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, SyncAlways: syncAlways,
			JetStream: true, StoreDir: b.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
			Cluster: server.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: port}, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		b.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers[i], urls = s, append(urls, s.ClientURL())
	}
	led := func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n }
	for !slices.ContainsFunc(servers, led) {
		if broker.Wait(b.Context(), 20*time.Millisecond) != nil {
			b.Fatal("the servers have no leader")
		}
	}
	return strings.Join(urls, ",")
}

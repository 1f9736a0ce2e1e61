package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
)

func runService(t *testing.T, url string, change func(*config.Config)) *service.Service {
	t.Helper()
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = t.TempDir(), "127.0.0.1:0", false
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	change(cfg)
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
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// secured runs a service with TLS on every address.
func secured(t *testing.T, ca *certtest.Authority, clientCA string) *service.Service {
	t.Helper()
	cert, key := ca.Issue("server")
	up := startSandbox(t, sandbox.Options{VideoDuration: 100 * time.Millisecond, ChunkInterval: time.Millisecond})
	return runService(t, up.URL(), func(c *config.Config) {
		c.HTTP.TLS = config.ServerTLS{CertFile: cert, KeyFile: key, ClientCAFile: clientCA}
		c.GRPC.TLS = c.HTTP.TLS
		c.NATS.TLS = config.TLS{CertFile: cert, KeyFile: key, CAFile: clientCA}
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].Poll.Interval = 100 * time.Millisecond
			}
		}
	})
}

// tlsEntrances use each ingress once with the client's TLS.
var tlsEntrances = map[string]func(t *testing.T, s *service.Service, client *tls.Config) error{
	"HTTP": func(t *testing.T, s *service.Service, client *tls.Config) error {
		_, err := overTLS(t, s, client, http.MethodGet, "/v1/models", "")
		return err
	},
	"gRPC": func(t *testing.T, s *service.Service, client *tls.Config) error {
		conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client)))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		_, err = genbusv1grpc.NewModelServiceClient(conn).ListModels(ctx, &genbusv1.ListModelsRequest{})
		return err
	},
	"NATS": func(_ *testing.T, s *service.Service, client *tls.Config) error {
		nc, err := nats.Connect(s.NATSURL(), nats.Secure(client), nats.NoReconnect())
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = nc.Request(s.Names().Call("video", "default"), []byte("{}"), brokertest.Patience)
		return err
	},
}

func overTLS(t *testing.T, s *service.Service, client *tls.Config, method, path, body string) (map[string]any, error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.HTTPAddr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 {
		t.Errorf("%s %s by %s", method, path, res.Proto)
	}
	var v map[string]any
	err = json.NewDecoder(res.Body).Decode(&v)
	return v, err
}

// TestEveryEntranceWithTLS proves that each ingress accepts a client that trusts the authority and,
// if required, presents a known certificate.
func TestEveryEntranceWithTLS(t *testing.T) {
	t.Parallel()
	ca, clients := certtest.New(t, "ca"), certtest.New(t, "clients")
	open, mutual := secured(t, ca, ""), secured(t, ca, clients.File)
	known := clients.Client("client")
	known.RootCAs = ca.Client("").RootCAs
	for name, enter := range tlsEntrances {
		for who, tc := range map[string]struct {
			to     *service.Service
			client *tls.Config
			let    bool
		}{
			"who trusts the authority":                        {open, ca.Client(""), true},
			"who trusts another":                              {open, clients.Client(""), false},
			"mutual, with a certificate":                      {mutual, known, true},
			"mutual, without":                                 {mutual, ca.Client(""), false},
			"mutual, with a certificate of another authority": {mutual, ca.Client("stranger"), false},
		} {
			if err := enter(t, tc.to, tc.client.Clone()); (err == nil) != tc.let {
				t.Errorf("%s, %s: %v", name, who, err)
			}
		}
	}
}

// TestPlainClientsAndTLS proves that clients without TLS are told or disconnected.
func TestPlainClientsAndTLS(t *testing.T) {
	t.Parallel()
	s := secured(t, certtest.New(t, "ca"), "")
	if answer := speak(t, s.HTTPAddr().String(), "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.0 400 ") || !strings.Contains(answer, "HTTPS") {
		t.Errorf("HTTP: %q", answer)
	}
	conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := genbusv1grpc.NewModelServiceClient(conn).ListModels(ctx, &genbusv1.ListModelsRequest{}); err == nil {
		t.Error("gRPC without TLS is served")
	}
}

// speak sends text and reads until the connection ends.
func speak(t *testing.T, addr, text string) string {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(brokertest.Patience)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, text) // the server may stop reading
	answer, _ := io.ReadAll(bufio.NewReader(conn))
	return string(answer)
}

// TestLinksSayHTTPS proves that content links use https with TLS.
func TestLinksSayHTTPS(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	s := secured(t, ca, "")
	client := ca.Client("")
	created, err := overTLS(t, s, client, http.MethodPost, "/v1/videos", `{"model":"sandbox-videos","prompt":"a cat"}`)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := created["id"].(string)
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for {
		video, err := overTLS(t, s, client, http.MethodGet, "/v1/videos/"+id, "")
		if err != nil {
			t.Fatal(err)
		}
		if video["status"] != "completed" {
			if broker.Wait(ctx, 50*time.Millisecond) != nil {
				t.Fatalf("not completed: %v", video)
			}
			continue
		}
		metadata, _ := video["metadata"].(map[string]any)
		if url, _ := metadata["url"].(string); url != "https://"+s.HTTPAddr().String()+"/v1/videos/"+id+"/content" {
			t.Errorf("the content is at %q", url)
		}
		return
	}
}

// TestHTTPServerIsBounded proves that request headers and connections are limited.
func TestHTTPServerIsBounded(t *testing.T) {
	t.Parallel()
	up := startSandbox(t, sandbox.Options{})
	s := runService(t, up.URL(), func(c *config.Config) { c.HTTP.MaxConnections = 2 })
	addr := s.HTTPAddr().String()
	head := func(n int) string {
		return "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: " + strings.Repeat("x", n) + "\r\n\r\n"
	}
	for n, status := range map[int]string{100: "200", service.MaxHeaderBytes - 1<<10: "200", service.MaxHeaderBytes + 8<<10: "431", 10 * service.MaxHeaderBytes: "431"} {
		if answer := speak(t, addr, head(n)); !strings.HasPrefix(answer, "HTTP/1.1 "+status+" ") {
			t.Errorf("a header of %d bytes: %.60q", n, answer)
		}
	}
	held := make([]net.Conn, 2)
	for i := range held {
		var err error
		if held[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held[i].Close() }()
	}
	served := make(chan string)
	go func() { served <- speak(t, addr, head(1)) }()
	select {
	case answer := <-served:
		t.Errorf("a third connection is served: %q", answer)
	case <-time.After(200 * time.Millisecond):
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	if answer := <-served; !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("after one has closed: %q", answer)
	}
}

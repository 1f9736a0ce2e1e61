package service_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
	"github.com/genbus/genbus/internal/subject"
)

const operatorKey = "gb_operator-0123456789abcdef"

func withOperator(c *config.Config) {
	c.OperatorKeys = []config.OperatorKey{{Name: "ops", KeyEnv: "OPS", Key: config.NewSecret(operatorKey)}}
}

// operators returns an operator's client of a service.
func operators(t *testing.T, s *servicetest.Running) (genbusv1grpc.OperatorServiceClient, context.Context) {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return genbusv1grpc.NewOperatorServiceClient(conn), metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+operatorKey)
}

// TestNothingNeedsAttention checks that idle replicas list nothing from their start, nor while they
// are replaced one at a time.
func TestNothingNeedsAttention(t *testing.T) {
	t.Parallel()
	server := brokertest.Alone(t)
	up := newSandbox(t)
	start := func() *servicetest.Running {
		s, err := servicetest.Start(servicetest.Options{
			NATSURL: server.ClientURL(), Upstream: up.URL(), Change: withOperator, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var lists sync.WaitGroup
	// watch lists until the replica stops, and reports when nothing has been missing from a list.
	watch := func(s *servicetest.Running) (whole chan struct{}, end func()) {
		whole, stop := make(chan struct{}), make(chan struct{})
		client, ctx := operators(t, s)
		done := sync.OnceFunc(func() { close(whole) })
		lists.Go(func() {
			for broker.Wait(ctx, 10*time.Millisecond) == nil {
				got, err := client.ListAttention(ctx, &genbusv1.ListAttentionRequest{}, grpc.WaitForReady(true))
				select {
				case <-stop:
					return
				default:
				}
				if err != nil || len(got.GetEntries()) > 0 {
					t.Errorf("%v, %v", got, err)
				}
				if err == nil && len(got.GetMissing()) == 0 {
					done()
				}
			}
		})
		return whole, func() { close(stop) }
	}
	var ends []func()
	var running []*servicetest.Running
	next := func() {
		s := start()
		whole, end := watch(s)
		select {
		case <-whole:
		case <-time.After(brokertest.Patience):
			t.Fatal("parts are missing")
		}
		running, ends = append(running, s), append(ends, end)
	}
	next()
	next()
	for range 2 {
		ends[0]()
		if err := running[0].Stop(); err != nil {
			t.Error(err)
		}
		running, ends = running[1:], ends[1:]
		next()
	}
	for i, s := range running {
		ends[i]()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	lists.Wait()
}

// listed waits until exactly these reasons are listed, and returns the entries.
func listed(t *testing.T, s *servicetest.Running, want ...genbusv1.Attention_Reason) []*genbusv1.Attention {
	t.Helper()
	client, ctx := operators(t, s)
	ctx, cancel := context.WithTimeout(ctx, brokertest.Patience)
	defer cancel()
	for {
		got, err := client.ListAttention(ctx, &genbusv1.ListAttentionRequest{}, grpc.WaitForReady(true))
		var reasons []genbusv1.Attention_Reason
		for _, a := range got.GetEntries() {
			reasons = append(reasons, a.GetReason())
		}
		if err == nil && slices.Equal(reasons, want) {
			return got.GetEntries()
		}
		if broker.Wait(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("got %v, %v", got, err)
		}
	}
}

// TestWhatNeedsAttention checks the entries of a refused key, an open breaker, a missing replica,
// full streams, and a task log that is too full for submissions.
func TestWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	server, up := brokertest.Alone(t), newSandbox(t)
	var status atomic.Int64
	up.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour { return &sandbox.Behaviour{Status: int(status.Load())} })
	const limit = 1 << 20 // the least
	s := servicetest.New(t, servicetest.Options{NATSURL: server.ClientURL(), Upstream: up.URL(), Change: func(c *config.Config) {
		withOperator(c)
		u := c.Upstreams[config.SandboxUpstream]
		u.Breaker = config.Breaker{Failures: 2, OpenFor: brokertest.Patience}
		c.Upstreams[config.SandboxUpstream] = u
		c.NATS.Streams.Tasks.MaxBytes, c.NATS.Streams.Ops.MaxBytes, c.NATS.Streams.Usage.MaxBytes = limit, limit, limit
	}})
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	begin := time.Now()
	for _, subj := range []string{s.Names().Task(subject.Video, "acme", "test"), s.Names().AuditBulk("test"), s.Names().Prefix() + ".usage.video.acme.test"} {
		for range 11 { // not yet full
			if _, err := nc.Request(subj, make([]byte, limit/12), brokertest.Patience); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, code := range []int64{http.StatusUnauthorized, http.StatusInternalServerError, http.StatusInternalServerError} {
		status.Store(code)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr().String()+"/v1/chat/completions",
			strings.NewReader(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Fatal(answer.Status)
		}
	}
	gone := nats.NewMsg(s.Names().Replicas())
	gone.Header.Set("genbus-replica", "gone")
	gone.Header.Set("genbus-address", "host-gone:8080")
	if err := nc.PublishMsg(gone); err != nil {
		t.Fatal(err)
	}
	got := listed(t, s, genbusv1.Attention_REASON_NOT_READY, genbusv1.Attention_REASON_STREAM_FULL, genbusv1.Attention_REASON_STREAM_FULL, genbusv1.Attention_REASON_BREAKER_OPEN, genbusv1.Attention_REASON_KEY_REFUSED,
		genbusv1.Attention_REASON_REPLICA_MISSING, genbusv1.Attention_REASON_STREAM_DROPS_OLD)
	for i, want := range []struct{ subject, affects string }{
		{"check task_log", "No replica accepts jobs: the task log has used "},
		{"stream " + s.Names().Ops(), "At 100 %, genbus refuses operator actions."},
		{"stream " + s.Names().Tasks(), "At 100 %, genbus refuses new jobs."},
		{"upstream sandbox", "genbus avoids it: jobs go to other upstreams of their routes, or wait. 3 of 3 calls in the last 5 minutes failed. Last failure: status 500"},
		{"only key of upstream sandbox", "Upstream sandbox refused it with HTTP 401. It has no other key"},
		{"replica host-gone:8080", "It does not answer; 1 replica does."},
		{"stream " + s.Names().UsageStream(), "Late readers miss usage events."},
	} {
		if got[i].GetSubject() != want.subject || !strings.Contains(got[i].GetAffects(), want.affects) {
			t.Errorf("%v", got[i])
		}
	}
	for _, a := range []*genbusv1.Attention{got[0], got[3], got[4], got[5]} {
		if since := a.GetSince().AsTime(); since.Before(begin) || since.After(time.Now()) {
			t.Errorf("%s since %s", a.GetSubject(), since)
		}
	}
}

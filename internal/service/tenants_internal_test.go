package service

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestTenantsAreCounted proves that the metrics show the counts of the index, and that the largest
// tenants get the limited series.
func TestTenantsAreCounted(t *testing.T) {
	t.Parallel()
	cfg, metrics := config.Default(), telemetry.NewMetrics("test")
	cfg.Telemetry.MetricsTenants = 1
	metrics.LabelTenants(1)
	p := parts.New(parts.Options{Config: config.NewLive(cfg), Broker: brokertest.Single(t), Metrics: metrics, Logger: brokertest.Logger(t)})
	for id, tenant := range map[string]string{"video_1": "small", "video_2": "acme", "video_3": "acme"} {
		item := &genbusv1.WorkItem{Id: id, Kind: "video", Tenant: tenant, Route: "r", Model: "m", Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now()}
		if _, err := p.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
			t.Fatal(err)
		}
	}
	s := &Service{cfg: cfg, metrics: metrics, parts: p}
	endLog, err := p.StartLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		s.countTenants(ctx)
	}()
	defer func() {
		cancel()
		<-counted
		endLog()
	}()
	for end := time.Now().Add(time.Minute); !slices.Equal(metrics.LabelledTenants(), []string{"acme"}); {
		if time.Now().After(end) {
			t.Fatalf("series have %v", metrics.LabelledTenants())
		}
		if err := broker.Wait(ctx, 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

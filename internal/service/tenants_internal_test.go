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
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestTenantsAreCounted as the index has them: the largest get the series that there are.
func TestTenantsAreCounted(t *testing.T) {
	t.Parallel()
	b, metrics := brokertest.Single(t), telemetry.NewMetrics("test")
	log := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: metrics, Logger: brokertest.Logger(t)})
	for id, tenant := range map[string]string{"video_1": "small", "video_2": "acme", "video_3": "acme"} {
		item := &genbusv1.WorkItem{Id: id, Kind: "video", Tenant: tenant, Route: "r", Model: "m", Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now()}
		if _, err := log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config.Default()
	cfg.Telemetry.MetricsTenants = 1
	metrics.LabelTenants(1)
	s := &Service{cfg: cfg, metrics: metrics, index: jobindex.New(jobindex.Options{Log: log, Metrics: metrics, Logger: brokertest.Logger(t)})}
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := s.index.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		s.countTenants(ctx)
	}()
	defer func() {
		cancel()
		wait()
		<-counted
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

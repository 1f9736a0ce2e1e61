package main

import (
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// TestHealthTurnsBeforeCallsAreRefused proves that HTTP and gRPC health report a draining replica
// for shutdown.delay while calls are still served.
func TestHealthTurnsBeforeCallsAreRefused(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{}, func(c *config.Config) { c.Shutdown.Delay = 8 * time.Second }) // enough for the calls on a busy machine
	watch, err := grpc_health_v1.NewHealthClient(w.grpc).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	see := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			got, err := watch.Recv()
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if got.GetStatus() == want {
				return
			}
		}
	}
	see(grpc_health_v1.HealthCheckResponse_SERVING)
	w.terminate()
	see(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	for _, path := range []string{"/readyz", "/readyz/jobs"} {
		if code, body := getJSON(t, w.base+path, ""); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if _, err := genbusv1grpc.NewVideoServiceClient(w.grpc).ListVideoTasks(t.Context(), &genbusv1.ListVideoTasksRequest{}); err != nil {
		t.Errorf("a call within the delay: %v", err)
	}
	if code, body := getJSON(t, w.base+"/genbus/v1/videos", ""); code != http.StatusOK {
		t.Errorf("a request within the delay: %d %s", code, body)
	}
}

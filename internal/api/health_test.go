package api_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// TestHealthKnowsEveryService: load balancers and clients may ask for the health of
// one service, whichever of ours it is.
func TestHealthKnowsEveryService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	health, ours := grpc_health_v1.NewHealthClient(w.dial()), 0
	for name := range w.api.GRPCServer().GetServiceInfo() {
		if !strings.HasPrefix(name, "genbus.") {
			continue
		}
		ours++
		// An unknown service is NotFound; whether ours serve is another test's.
		if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ours == 0 {
		t.Error("the server has no service")
	}
}

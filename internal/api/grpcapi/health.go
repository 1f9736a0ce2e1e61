package grpcapi

import (
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/telemetry"
)

// healthService is the standard gRPC health service. It reports the state of /readyz/jobs.
type healthService struct{ server *health.Server }

// healthNames are the services that clients can check. The empty name stands for the whole server.
var healthNames = []string{
	"", genbusv1grpc.VideoService_ServiceDesc.ServiceName, genbusv1grpc.ChatService_ServiceDesc.ServiceName,
	genbusv1grpc.ModelService_ServiceDesc.ServiceName, genbusv1grpc.OperatorService_ServiceDesc.ServiceName,
}

// newHealthService returns a service that reports NOT_SERVING until h has been checked once.
func newHealthService(h *telemetry.Health) *healthService {
	s := &healthService{server: health.NewServer()}
	s.set(false)
	h.Watch(func(jobs bool, _ []telemetry.Reason) { s.set(jobs) })
	return s
}

func (s *healthService) set(ready bool) {
	status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	for _, name := range healthNames {
		s.server.SetServingStatus(name, status)
	}
}

// drain makes the service report NOT_SERVING permanently.
func (s *healthService) drain() { s.server.Shutdown() }

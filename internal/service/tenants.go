package service

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// tenantsEvery is how often the unfinished jobs of tenants are counted.
const tenantsEvery = 15 * time.Second

// countTenants sets the metrics of tenants until ctx ends. What no replica knows at the time
// stays as it was.
func (s *Service) countTenants(ctx context.Context) {
	most := s.cfg.Telemetry.MetricsTenants
	for most > 0 {
		jobs, total, err := s.parts.Index.UnfinishedByTenant(ctx, most, s.metrics.LabelledTenants())
		wait := tenantsEvery
		if err == nil {
			s.metrics.TenantsUnfinished(jobs, total)
		} else {
			wait = time.Second
		}
		if broker.Wait(ctx, wait) != nil {
			return
		}
	}
}

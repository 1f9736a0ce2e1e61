package service

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// tenantsEvery is the interval between counts of the tenants' unfinished jobs.
const tenantsEvery = 15 * time.Second

// countTenants updates the tenant metrics periodically until ctx ends. They keep their values while
// no replica has caught up with the job log.
func (s *Service) countTenants(ctx context.Context) {
	limit := s.cfg.Telemetry.MetricsTenants
	for limit > 0 {
		jobs, total, err := s.parts.Index.UnfinishedByTenant(ctx, limit, s.metrics.LabelledTenants())
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
